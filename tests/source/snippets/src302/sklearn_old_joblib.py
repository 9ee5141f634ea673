# expect: SRC302@4
from sklearn.externals import joblib

model = joblib.load("model.pkl")
