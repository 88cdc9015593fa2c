"""The tasks that the red team attacks: small, and all of them pass the lint."""

from __future__ import annotations

from maxkernel.tasks import task_from_text
from maxkernel.types import Task

ROWS = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 2e-2, "rtol": 1e-2}

def reference(x, scale):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)

def make(key, rows, cols):
    a, b = jax.random.split(key)
    x = jax.random.normal(a, (rows, cols)).astype(jnp.bfloat16)
    return x, 1 + 0.3 * jax.random.normal(b, (cols,))

def inputs(key):
    return make(key, 512, 512)

def check_inputs(key):
    return make(key, 80, 256)
"""

PRODUCT = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}

def reference(x, w):
    return jnp.dot(x, w, precision="highest")

def make(key, m, k, n):
    a, b = jax.random.split(key)
    return jax.random.normal(a, (m, k)), jax.random.normal(b, (k, n)) * k**-0.5

def inputs(key):
    return make(key, 256, 512, 256)

def check_inputs(key):
    return make(key, 128, 256, 128)
"""

RAGGED = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}

def reference(lengths, x):
    mask = jnp.arange(x.shape[1])[None, :, None] < lengths[:, None, None]
    return jnp.where(mask, x, 0).sum(1) / lengths[:, None], x.max(1)

def make(key, batch, time):
    a, b = jax.random.split(key)
    lengths = jax.random.randint(a, (batch,), 1, time + 1)
    return lengths, 1 + jax.random.normal(b, (batch, time, 128))

def inputs(key):
    return make(key, 32, 128)

def check_inputs(key):
    return make(key, 16, 64)
"""

SOFTMAX = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-6, "rtol": 1e-4}

def reference(x):
    return jax.nn.softmax(x, -1)

def inputs(key):
    return jax.random.normal(key, (512, 512))

def check_inputs(key):
    return jax.random.normal(key, (64, 256))
"""

LEAKY = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}

def reference(x):
    return jnp.where(x > 0, x, 0.1 * x) * 3

def inputs(key):
    return jax.random.uniform(key, (512, 512))

def check_inputs(key):
    return jax.random.uniform(key, (64, 256))
"""

ROOTS = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-3, "rtol": 1e-3}

def reference(x):
    return jnp.sign(x) * jnp.sqrt(jnp.abs(x))

def inputs(key):
    return jax.random.normal(key, (512, 512))

def check_inputs(key):
    return jax.random.normal(key, (64, 256))
"""

RANGES = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-2, "rtol": 1e-2}

def reference(x):
    low, high = x.min(0), x.max(0)
    return x + (x - low) / (high - low + 4e-6)

def inputs(key):
    return jax.random.normal(key, (256, 512))

def check_inputs(key):
    return jax.random.normal(key, (64, 256))
"""

PAGES = """
import jax, jax.numpy as jnp
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}

def reference(lengths, x):
    mask = jnp.arange(x.shape[1])[None, :, None] < lengths[:, None, None]
    return jnp.where(mask, x, 0).sum(1)

def make(key, batch, time):
    a, b = jax.random.split(key)
    pages = jax.random.randint(a, (batch,), 1, time // 16 + 1)
    return 16 * pages, 1 + jax.random.normal(b, (batch, time, 128))

def inputs(key):
    return make(key, 32, 256)

def check_inputs(key):
    return make(key, 16, 128)
"""

TASKS: dict[str, Task] = {
    name: task_from_text(name, "maxkernel", f"{name}.py", {f"{name}.py": text})
    for name, text in {
        "rows": ROWS,
        "product": PRODUCT,
        "ragged": RAGGED,
        "softmax": SOFTMAX,
        "leaky": LEAKY,
        "roots": ROOTS,
        "ranges": RANGES,
        "pages": PAGES,
    }.items()
}
