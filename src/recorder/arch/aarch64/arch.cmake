# SPDX-License-Identifier: Apache-2.0
# General registers only, as on x86-64. Atomic operations inline: their helpers are in libgcc, which the recorder does not link.
set(recorder_arch_flags -mbranch-protection=standard -mgeneral-regs-only -mno-outline-atomics)
# Stacks are compared with those of libgcc: libunwind 1.8 loses its way where return addresses are signed.
set(recorder_verify_by_libgcc ON)
