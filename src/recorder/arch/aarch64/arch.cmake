# SPDX-License-Identifier: Apache-2.0
# General registers only, as on x86-64. Atomic operations inline: their helpers are in libgcc, which the recorder does not link.
set(recorder_arch_flags -mbranch-protection=standard -mgeneral-regs-only -mno-outline-atomics)
# Stacks are compared with libunwind's frame by frame: its unw_backtrace does not strip signatures before 1.8.2, and gives odd
# addresses before 1.8.3.
set(recorder_verify_by_steps ON)
