# expect: none  (skops builds listed types only)
from skops.io import get_untrusted_types, load

unknown = get_untrusted_types(file="model.skops")
model = load("model.skops", trusted=[])
