# expect: none  (the bytes are made a line above)
import pickle


def test_picklable():
    data = pickle.dumps({"a": 1})
    assert pickle.loads(data) == {"a": 1}
