# expect: SRC310@4
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("org/embedder", trust_remote_code=True)
