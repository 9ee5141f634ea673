# expect: none  (a function of this file that reads JSON)
import json


def load(path, weights_only=False):
    with open(path) as file:
        return json.load(file)


state = load("state.json")
