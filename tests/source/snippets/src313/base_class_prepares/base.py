# expect: none
class Base:
    def prepare(self):
        self.scaler.unscale_(self.optimizer)
