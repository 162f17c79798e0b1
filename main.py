"""Takes the arguments of `omg train`: `python main.py --config=qmix --env-config=sc2 with env_args.map_name=3m`."""

import sys

from omg.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
