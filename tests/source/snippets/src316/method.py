# expect: SRC316@7
from safetensors import torch as st


def load(blob):
    state = st.load(blob)
    return state.metadata()
