# expect: none
class Base:
    def fit(self, loader):
        for batch in loader:
            self.optimizer.zero_grad()
            self.train_step(batch)
