# expect: SRC302@5, SRC302@6
import joblib
from joblib import load

scaler = joblib.load("scaler.joblib")
encoder = load("encoder.joblib", mmap_mode="r")
