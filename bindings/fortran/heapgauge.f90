! SPDX-License-Identifier: Apache-2.0
!
! For Fortran programs that say something about their own memory while `heapgauge record` watches. Compile this file with
! the program; nothing has to be linked. Without the recorder every call is the test of one variable.
!
!     use heapgauge
!     type(hg_scope) :: scope
!
!     call scope%enter("solver")   ! what this thread allocates from here on belongs to "solver"
!     allocate (matrix(n, n))
!     call scope%leave()
!
! libc's confstr is asked once a question that only the recorder answers: by the address of its table of functions. Its
! layout is that of struct hg_recorder_ in <heapgauge/heapgauge.h>. No call allocates, changes errno or fails.
module heapgauge
   use, intrinsic :: iso_c_binding
   implicit none
   private
   public :: hg_scope, hg_is_recorded

   integer, parameter :: name_bytes_max = 255 ! the rest of a name is left out

   ! What leaving goes back to.
   type, bind(C) :: entered_scope
      integer(c_int32_t) :: before = 0, kept = 0
   end type

   ! One at a time: entering again leaves first. There is no FINAL procedure that leaves: what compilers make around one may
   ! allocate. A scope that was not left ends with the next one outside.
   type :: hg_scope
      private
      type(entered_scope) :: entered
      logical :: is_entered = .false.
   contains
      procedure :: enter
      procedure :: leave
   end type

   type, bind(C) :: recorder_table
      integer(c_int32_t) :: version, bytes
      type(c_funptr) :: enter, enter_name, leave
   end type

   abstract interface
      function enter_name_call(name, frame) bind(C) result(scope)
         import :: c_char, c_ptr, entered_scope
         character(kind=c_char), intent(in) :: name(*)
         type(c_ptr), value :: frame
         type(entered_scope) :: scope
      end function
      subroutine leave_call(scope) bind(C)
         import :: entered_scope
         type(entered_scope), value :: scope
      end subroutine
   end interface

   interface
      function confstr(name, buffer, bytes) bind(C, name="confstr") result(written)
         import :: c_int, c_ptr, c_size_t
         integer(c_int), value :: name
         type(c_ptr), intent(inout) :: buffer
         integer(c_size_t), value :: bytes
         integer(c_size_t) :: written
      end function
      function errno_location() bind(C, name="__errno_location") result(location)
         import :: c_ptr
         type(c_ptr) :: location
      end function
   end interface

   integer(c_int), parameter :: question = int(z'48474131', c_int)

   ! Threads that ask at once get the same answer, and it is complete before `is_known` says so.
   logical, volatile :: is_known = .false.
   procedure(enter_name_call), pointer :: recorder_enter => null()
   procedure(leave_call), pointer :: recorder_leave => null()

contains

   ! Whether the recorder is there.
   logical function hg_is_recorded()
      if (.not. is_known) call ask()
      hg_is_recorded = associated(recorder_enter)
   end function

   ! Blanks at the end of the name do not count.
   subroutine enter(self, name)
      class(hg_scope), intent(inout) :: self
      character(len=*), intent(in) :: name
      character(kind=c_char) :: text(name_bytes_max + 1)
      integer :: i, length

      if (.not. hg_is_recorded()) return
      call self%leave()
      length = min(len_trim(name), name_bytes_max)
      do i = 1, length
         text(i) = name(i:i)
      end do
      text(length + 1) = c_null_char
      self%entered = recorder_enter(text, c_null_ptr)
      self%is_entered = .true.
   end subroutine

   subroutine leave(self)
      class(hg_scope), intent(inout) :: self

      if (self%is_entered) call recorder_leave(self%entered)
      self%is_entered = .false.
   end subroutine

   ! Without the recorder confstr fails and says so in errno, which is the program's.
   subroutine ask()
      type(c_ptr) :: found
      type(recorder_table), pointer :: table
      procedure(enter_name_call), pointer :: found_enter
      integer(c_int), pointer :: errno
      integer(c_int) :: before
      integer(c_size_t) :: written

      found = c_null_ptr
      call c_f_pointer(errno_location(), errno)
      before = errno
      written = confstr(question, found, c_sizeof(found))
      errno = before
      if (written == c_sizeof(found) .and. c_associated(found)) then
         call c_f_pointer(found, table)
         call c_f_procpointer(table%leave, recorder_leave)
         call c_f_procpointer(table%enter_name, found_enter)
         recorder_enter => found_enter
      end if
      is_known = .true.
   end subroutine

end module
