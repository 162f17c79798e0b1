"""The one loop and its compiled program: play, store, learn, test, save."""
