# expect: none
class Learner:
    def update(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
