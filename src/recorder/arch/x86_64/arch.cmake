# SPDX-License-Identifier: Apache-2.0
# General registers only: others want an aligned stack, which some callers of malloc do not have.
set(recorder_arch_flags -fcf-protection=full -mgeneral-regs-only)
