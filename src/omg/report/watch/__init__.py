"""Watching recorded games: what is told of them (`film`), the page that plays them, pictures of steps."""
