# expect: none  (off unless somebody asks for it on the command line)
import argparse

from datasets import load_dataset
from transformers import AutoModel

parser = argparse.ArgumentParser()
parser.add_argument("--trust-remote-code", action="store_true")
args = parser.parse_args()


def remote_code(trust):
    if not trust:
        return {}
    return dict(trust_remote_code=True)


model = AutoModel.from_pretrained("org/model", trust_remote_code=args.trust_remote_code)
data = load_dataset("org/data", **remote_code(args.trust_remote_code))
