# expect: SRC301@4
from torch.package import PackageImporter

importer = PackageImporter("model.pt")
model = importer.load_pickle("model", "model.pkl")
