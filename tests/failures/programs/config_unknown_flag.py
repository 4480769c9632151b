"""A flag of the command line is misspelt."""
# run: python config_unknown_flag.py --batchsize 4
# fixed-run: python config_unknown_flag.py --batch-size 4
# cause: config.cli_argument
# says: --batchsize
# fix-says: Correct the flag
# fix-edits: --batch-size 4
# quick: yes

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
print(parser.parse_args().batch_size)
