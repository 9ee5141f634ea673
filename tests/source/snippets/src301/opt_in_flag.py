# expect: none  (True unless somebody asks for it on the command line)
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--trust-checkpoint", action="store_true")
args = parser.parse_args()
state = torch.load("model.pt", weights_only=not args.trust_checkpoint)
