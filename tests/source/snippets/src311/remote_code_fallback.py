# expect: SRC311@9
from transformers import AutoConfig


def config(name):
    try:
        return AutoConfig.from_pretrained(name)
    except ValueError:
        return AutoConfig.from_pretrained(name, trust_remote_code=True)
