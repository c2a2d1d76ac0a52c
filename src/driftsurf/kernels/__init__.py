"""Every compiled loop, the counter-based random numbers, and the cache of compiled code.

A kernel is a function over arrays that allocates nothing, keeps no random state, and raises nothing. Import kernels
from the module of their subject, such as ``driftsurf.kernels.linear``. Nothing here depends on the rest of the package.
"""
