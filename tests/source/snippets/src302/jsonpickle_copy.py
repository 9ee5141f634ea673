# expect: none  (the text is made a line above)
import jsonpickle


def copied(value):
    text = jsonpickle.encode(value)
    return jsonpickle.decode(text)
