# expect: SRC310@4
from datasets import load_dataset

data = load_dataset("org/data", split="train", trust_remote_code=True)
