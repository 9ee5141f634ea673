# expect: SRC310@13
from transformers import AutoModel


class Encoder:
    def __init__(self, source, **kwargs):
        trust = kwargs.get("trust_remote_code", False)
        self.model = AutoModel.from_pretrained(source, trust_remote_code=trust)


class MusicEncoder(Encoder):
    def __init__(self, source):
        super().__init__(source, trust_remote_code=True)
