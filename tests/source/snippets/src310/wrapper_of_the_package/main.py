# expect: SRC310@4
import hub

model = hub.build("a/b", remote=True)
other = hub.build("a/b")
