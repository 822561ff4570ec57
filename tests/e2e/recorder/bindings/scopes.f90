! SPDX-License-Identifier: Apache-2.0
! Arrays of known sizes in known scopes; "C" asks libc itself, so that one number is no compiler's choice.
module work
   use, intrinsic :: iso_c_binding
   use heapgauge
   implicit none
   interface
      function c_malloc(bytes) bind(C, name="malloc") result(block)
         import :: c_ptr, c_size_t
         integer(c_size_t), value :: bytes
         type(c_ptr) :: block
      end function
      subroutine c_free(block) bind(C, name="free")
         import :: c_ptr
         type(c_ptr), value :: block
      end subroutine
   end interface
   real(c_double), allocatable :: kept(:)
contains
   subroutine solve(n)
      integer, intent(in) :: n
      type(hg_scope) :: scope, inner
      real(c_double), allocatable :: matrix(:, :)

      call scope%enter("solver")
      allocate (matrix(n, n))
      matrix = 1
      call inner%enter("pivot   ")
      block
         integer(c_int32_t), allocatable :: order(:)
         allocate (order(n))
         order = 2
         if (sum(order) /= 2*n) error stop
      end block
      call inner%leave()
      block
         real(c_double), allocatable :: column(:)
         allocate (column(n))
         column = matrix(:, 1)
         if (nint(sum(column)) /= n) error stop
      end block
      deallocate (matrix)
      call scope%leave()
   end subroutine
end module

program scopes
   use work
   implicit none
   type(hg_scope) :: scope
   type(c_ptr) :: block
   character(len=300) :: long
   integer :: i

   do i = 1, 3
      call solve(10)
   end do
   call scope%enter("first")
   call scope%enter("keeper") ! instead of "first", not below it
   allocate (kept(1000))
   call scope%leave()
   call scope%leave() ! nothing to leave
   call scope%enter("other")
   deallocate (kept) ! still the keeper's
   call scope%leave()
   call scope%enter("C")
   block = c_malloc(77_c_size_t)
   call c_free(block)
   call scope%leave()
   long = repeat("x", 300)
   call scope%enter(long)
   block = c_malloc(5_c_size_t)
   call c_free(block)
   call scope%leave()
   block = c_malloc(123457_c_size_t) ! in no scope
   call c_free(block)
   print '(L1)', hg_is_recorded()
end program
