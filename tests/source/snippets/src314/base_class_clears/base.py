# expect: none
class Base:
    def begin(self):
        self.optimizer.zero_grad()
