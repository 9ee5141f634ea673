# expect: none
from transformers import AutoModel


def build(name, remote=False):
    return AutoModel.from_pretrained(name, trust_remote_code=remote)
