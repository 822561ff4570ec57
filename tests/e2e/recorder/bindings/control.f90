! SPDX-License-Identifier: Apache-2.0
! What the module says of recording itself, and reads of it: blocks of known sizes, from libc itself.
program control
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
   type(hg_scope) :: scope
   type(hg_stats) :: stats
   type(hg_tag_stats) :: solver
   type(c_ptr) :: kept(20)
   integer(c_int32_t) :: context

   call scope%enter("solver")
   call hg_label("phase", "load")
   kept(1) = c_malloc(100_c_size_t)
   context = hg_context_get()
   call hg_label("phase", "")
   kept(2) = c_malloc(200_c_size_t)
   call scope%leave()
   kept(3) = c_malloc(300_c_size_t)
   call hg_context_set(context)
   kept(4) = c_malloc(400_c_size_t)
   call hg_context_set(0_c_int32_t)
   call hg_snapshot("one")
   call scope%enter("control")
   call hg_stop(hg_thread)
   kept(5) = c_malloc(1000_c_size_t)
   call hg_start(hg_thread)
   call hg_stop(hg_process)
   kept(6) = c_malloc(1000_c_size_t)
   call hg_start(hg_process)
   call hg_set_mode(hg_tags)
   kept(7) = c_malloc(2000_c_size_t)
   call hg_set_mode(hg_exact)
   kept(8) = c_malloc(3000_c_size_t)
   call scope%leave()
   call c_free(kept(1))
   call hg_mark("between")
   call hg_snapshot("two")
   if (hg_get_stats(stats) .neqv. hg_is_recorded()) error stop
   if (hg_get_tag_stats("nobody", solver)) error stop
   if (hg_get_tag_stats("solver", solver)) then
      print '(A, 8(1X, I0))', "solver", solver%visits, solver%self%bytes, solver%total%calls, solver%total%bytes, &
         solver%total%frees, solver%total%live_bytes, stats%mode, stats%estimated
      if (stats%peak_bytes < stats%heap%live_bytes .or. stats%heap%calls < 6) error stop
   else
      print '(A)', "alone"
   end if
end program
