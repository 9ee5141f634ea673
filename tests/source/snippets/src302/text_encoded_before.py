# expect: SRC302@8
import base64
import pickle


def read(text):
    data = text.encode()
    return pickle.loads(base64.b64decode(data))
