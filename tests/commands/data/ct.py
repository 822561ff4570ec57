# SPDX-License-Identifier: Apache-2.0
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.realloc.restype = libc.malloc.restype
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
block = libc.realloc(libc.malloc(100), 1 << 20)
print(bool(block), libc.free(block) is None)
order = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(5, 3, 1, 4, 2)
libc.qsort(numbers, 5, ctypes.sizeof(ctypes.c_int), order(lambda a, b: a[0] - b[0]))
print(list(numbers))
