# expect: SRC307@4
class Trainer:
    def resume(self, state):
        _ = self.model.load_state_dict(state["model"], strict=False)
        self.step = state["step"]
