# SPDX-License-Identifier: Apache-2.0
# General registers only: others want an aligned stack, which some callers of malloc do not have.
# gcc 10 then refuses atof, which is an inline function of <stdlib.h>: none of its headers' inline functions.
set(recorder_arch_flags -fcf-protection=full -mgeneral-regs-only -D__NO_INLINE__)
