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
! Contexts, labels, moments, control and numbers are as in <heapgauge/heapgauge.h>: hg_context_get, hg_context_set, hg_label,
! hg_mark, hg_snapshot, hg_stop, hg_start, hg_set_mode, hg_get_stats, hg_get_tag_stats.
!
! libc's confstr is asked once a question that only the recorder answers: by the address of its table of functions. Its
! layout is that of struct hg_recorder_ in <heapgauge/recorder.h>. No call allocates, changes errno or fails.
module heapgauge
   use, intrinsic :: iso_c_binding
   implicit none
   private
   public :: hg_scope, hg_is_recorded
   public :: hg_context_get, hg_context_set, hg_label, hg_mark, hg_snapshot, hg_stop, hg_start, hg_set_mode
   public :: hg_numbers, hg_stats, hg_tag_stats, hg_get_stats, hg_get_tag_stats
   integer(c_int), parameter, public :: hg_process = 0, hg_thread = 1
   integer(c_int), parameter, public :: hg_dormant = 0, hg_tags = 1, hg_sample = 2, hg_exact = 3, hg_default_mode = 255

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
      type(c_funptr) :: enter, enter_name, leave, mark
      type(c_funptr) :: pool_functions(5)
      type(c_funptr) :: context_get, context_set, label, label_enter, turn, go, stacks, stats, tag_stats, tags, sites
   end type

   ! Estimates in the sampled mode. There are no unsigned integers here: no number is so large.
   type, bind(C) :: hg_numbers
      integer(c_int64_t) :: calls = 0, bytes = 0, frees = 0, freed_bytes = 0, live_blocks = 0, live_bytes = 0
   end type

   type, bind(C) :: hg_stats
      integer(c_int32_t) :: mode = 0, estimated = 0
      type(hg_numbers) :: heap
      integer(c_int64_t) :: peak_bytes = 0, peak_bound_bytes = 0
      type(hg_numbers) :: mapped
      integer(c_int64_t) :: tags = 0, sites = 0, recorder_bytes = 0
   end type

   type, bind(C) :: hg_tag_stats
      character(kind=c_char) :: name(64) = c_null_char
      integer(c_int32_t) :: parent = 0, kind = 0
      integer(c_int64_t) :: visits = 0
      type(hg_numbers) :: self, total
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
      subroutine mark_call(kind, name) bind(C)
         import :: c_char, c_int
         integer(c_int), value :: kind
         character(kind=c_char), intent(in) :: name(*)
      end subroutine
      function context_get_call() bind(C) result(context)
         import :: c_int32_t
         integer(c_int32_t) :: context
      end function
      subroutine context_set_call(context) bind(C)
         import :: c_int32_t
         integer(c_int32_t), value :: context
      end subroutine
      subroutine label_call(key, text) bind(C)
         import :: c_char
         character(kind=c_char), intent(in) :: key(*), text(*)
      end subroutine
      subroutine turn_call(mode) bind(C)
         import :: c_int
         integer(c_int), value :: mode
      end subroutine
      subroutine go_call(on, place) bind(C)
         import :: c_int
         integer(c_int), value :: on, place
      end subroutine
      function stats_call(stats, bytes) bind(C) result(there)
         import :: c_int, c_size_t, hg_stats
         type(hg_stats), intent(inout) :: stats
         integer(c_size_t), value :: bytes
         integer(c_int) :: there
      end function
      function tag_stats_call(path, stats) bind(C) result(there)
         import :: c_char, c_int, hg_tag_stats
         character(kind=c_char), intent(in) :: path(*)
         type(hg_tag_stats), intent(inout) :: stats
         integer(c_int) :: there
      end function
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
   ! All of it; null for a recorder that is older and has the scopes alone.
   type(recorder_table), pointer :: whole => null()

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

      if (.not. hg_is_recorded()) return
      call self%leave()
      self%entered = recorder_enter(with_end(name), c_null_ptr)
      self%is_entered = .true.
   end subroutine

   subroutine leave(self)
      class(hg_scope), intent(inout) :: self

      if (self%is_entered) call recorder_leave(self%entered)
      self%is_entered = .false.
   end subroutine

   ! As C has texts.
   function with_end(name) result(text)
      character(len=*), intent(in) :: name
      character(kind=c_char) :: text(name_bytes_max + 1)
      integer :: i, length

      length = min(len_trim(name), name_bytes_max)
      do i = 1, length
         text(i) = name(i:i)
      end do
      text(length + 1:) = c_null_char
   end function

   logical function has_whole()
      has_whole = hg_is_recorded() .and. associated(whole)
   end function

   ! What the thread is in, to be carried to where the work goes on.
   integer(c_int32_t) function hg_context_get()
      procedure(context_get_call), pointer :: f

      hg_context_get = 0
      if (.not. has_whole()) return
      call c_f_procpointer(whole%context_get, f)
      hg_context_get = f()
   end function

   subroutine hg_context_set(context)
      integer(c_int32_t), intent(in) :: context
      procedure(context_set_call), pointer :: f

      if (.not. has_whole()) return
      call c_f_procpointer(whole%context_set, f)
      call f(context)
   end subroutine

   ! Until another one is set, or the scope ends in which this was called; "" takes it away.
   subroutine hg_label(key, text)
      character(len=*), intent(in) :: key, text
      procedure(label_call), pointer :: f

      if (.not. has_whole()) return
      call c_f_procpointer(whole%label, f)
      call f(with_end(key), with_end(text))
   end subroutine

   ! A name on the time line.
   subroutine hg_mark(name)
      character(len=*), intent(in) :: name

      call say(0_c_int, name)
   end subroutine

   ! What every stack holds now: `heapgauge report --at snap:NAME`.
   subroutine hg_snapshot(name)
      character(len=*), intent(in) :: name

      call say(1_c_int, name)
   end subroutine

   subroutine say(kind, name)
      integer(c_int), intent(in) :: kind
      character(len=*), intent(in) :: name
      procedure(mark_call), pointer :: f

      if (.not. has_whole()) return
      call c_f_procpointer(whole%mark, f)
      call f(kind, with_end(name))
   end subroutine

   ! Of hg_process or hg_thread: nothing that is allocated from now on is recorded; and it goes on.
   subroutine hg_stop(place)
      integer(c_int), intent(in) :: place

      call go(0_c_int, place)
   end subroutine

   subroutine hg_start(place)
      integer(c_int), intent(in) :: place

      call go(1_c_int, place)
   end subroutine

   subroutine go(on, place)
      integer(c_int), intent(in) :: on, place
      procedure(go_call), pointer :: f

      if (.not. has_whole()) return
      call c_f_procpointer(whole%go, f)
      call f(on, place)
   end subroutine

   ! hg_exact, hg_tags, hg_sample, hg_dormant, or hg_default_mode.
   subroutine hg_set_mode(mode)
      integer(c_int), intent(in) :: mode
      procedure(turn_call), pointer :: f

      if (.not. has_whole()) return
      call c_f_procpointer(whole%turn, f)
      call f(mode)
   end subroutine

   ! False, and zeros, without the recorder.
   logical function hg_get_stats(stats)
      type(hg_stats), intent(out) :: stats
      procedure(stats_call), pointer :: f

      hg_get_stats = .false.
      if (.not. has_whole()) return
      call c_f_procpointer(whole%stats, f)
      hg_get_stats = f(stats, c_sizeof(stats)) /= 0
   end function

   ! Of one tag by its path, "solver/pivot". False: nobody was there yet.
   logical function hg_get_tag_stats(path, stats)
      character(len=*), intent(in) :: path
      type(hg_tag_stats), intent(out) :: stats
      procedure(tag_stats_call), pointer :: f

      hg_get_tag_stats = .false.
      if (.not. has_whole()) return
      call c_f_procpointer(whole%tag_stats, f)
      hg_get_tag_stats = f(with_end(path), stats) /= 0
   end function

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
         if (table%bytes >= c_sizeof(table)) whole => table
         call c_f_procpointer(table%leave, recorder_leave)
         call c_f_procpointer(table%enter_name, found_enter)
         recorder_enter => found_enter
      end if
      is_known = .true.
   end subroutine

end module
