# expect: SRC310@6
from transformers import AutoModel


def build(name, trust_remote_code=True):
    return AutoModel.from_pretrained(name, trust_remote_code=trust_remote_code)
