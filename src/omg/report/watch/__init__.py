"""Watching recorded games: the page that plays them (`page`), what it is told (`film`), pictures of steps (`pictures`)."""
