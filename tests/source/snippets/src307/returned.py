# expect: none  (the caller gets the result)
class Wrapper:
    def load_state_dict(self, state, strict=True):
        return self.inner.load_state_dict(state, strict=False)
