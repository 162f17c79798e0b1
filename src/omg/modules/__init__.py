"""Networks only. They know no environment, no configuration and no episode: sizes and arrays come in, arrays go out."""
