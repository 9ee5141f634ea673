# expect: none  (off unless the caller asks)
from transformers import AutoModel


def build(name, trust_remote_code=False):
    first = AutoModel.from_pretrained(name)
    second = AutoModel.from_pretrained(name, trust_remote_code=False)
    return first, second, AutoModel.from_pretrained(name, trust_remote_code=trust_remote_code)
