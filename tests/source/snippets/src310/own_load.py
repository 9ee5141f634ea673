# expect: none  (not torch's hub)
class Hub:
    def load(self, name):
        return name


hub = Hub()
model = hub.load("owner/repo")
