! Kubist for Fortran 2008, based on the C library: compile this file with your compiler, and link with
! -lkubist.
!
!   call kubist_create(table, "run.kubist", options)
!   call kubist_open_writer(writer, table, '{"name": "rank-0"}')
!   call kubist_begin_step(writer, 1_int64)
!   call kubist_put(writer, "x", x)             ! ranks 1 and 2, strided parts too
!   call kubist_end_step(writer)
!   call kubist_close(writer)
!
! Every routine has stat= and errmsg=, as Fortran statements do. Without stat= an error is written
! to the error unit and stops the program (error stop). Values are copied before a call returns;
! the compiler copies array sections that are not contiguous. Character arguments need no trailing
! null.
module kubist
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64, error_unit
  implicit none
  private

  public :: kubist_table, kubist_writer
  public :: kubist_create, kubist_open, kubist_drop, kubist_open_writer, kubist_close
  public :: kubist_declare_writers, kubist_await_writers, kubist_retract_after, kubist_last_step
  public :: kubist_begin_step, kubist_put, kubist_end_step, kubist_abandon_step, kubist_wait
  public :: kubist_count, kubist_estimate, kubist_settle

  ! The status of a call, as KubistStatus in kubist.h.
  integer, parameter, public :: KUBIST_OK = 0, KUBIST_INVALID_INPUT = 1, KUBIST_CORRUPT = 2, &
    KUBIST_UNAVAILABLE = 3, KUBIST_NO_SPACE = 4, KUBIST_PERMISSION = 5, KUBIST_BUSY = 6, &
    KUBIST_EXPIRED = 7, KUBIST_CANCELLED = 8, KUBIST_UNSUPPORTED = 9, KUBIST_NOT_FOUND = 10, &
    KUBIST_EXISTS = 11, KUBIST_INTERNAL = 12, KUBIST_NOT_HERE = 13

  integer(c_int32_t), parameter :: type_f32 = 1, type_f64 = 2, type_i32 = 3, type_i64 = 4, &
    type_u8 = 5, type_bool = 6
  integer(c_int32_t), parameter :: abi_version = 1

  ! A wait without a limit, longer than any simulation.
  real(c_double), parameter :: forever = 1.0e18_c_double

  type :: kubist_table
    type(c_ptr) :: handle = c_null_ptr
  end type

  type :: kubist_writer
    type(c_ptr) :: handle = c_null_ptr
  end type

  interface kubist_close
    module procedure close_table, close_writer
  end interface

  interface kubist_put
    module procedure put_f32_1, put_f32_2, put_f64_1, put_f64_2, put_i32_1, put_i32_2, &
      put_i64_1, put_i64_2, put_u8_1, put_u8_2, put_logical_1, put_logical_2, put_c_bool_1, put_c_bool_2
  end interface

  interface
    function c_abi_version() bind(c, name="kubist_abi_version") result(version)
      import :: c_int32_t
      integer(c_int32_t) :: version
    end function
    function c_message() bind(c, name="kubist_message") result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_create(location, options, table) bind(c, name="kubist_table_create") result(status)
      import :: c_char, c_int32_t, c_ptr
      character(kind=c_char), intent(in) :: location(*), options(*)
      type(c_ptr), intent(out) :: table
      integer(c_int32_t) :: status
    end function
    function c_open(location, table) bind(c, name="kubist_table_open") result(status)
      import :: c_char, c_int32_t, c_ptr
      character(kind=c_char), intent(in) :: location(*)
      type(c_ptr), intent(out) :: table
      integer(c_int32_t) :: status
    end function
    function c_drop(location, options) bind(c, name="kubist_table_drop") result(status)
      import :: c_char, c_int32_t
      character(kind=c_char), intent(in) :: location(*), options(*)
      integer(c_int32_t) :: status
    end function
    function c_table_close(table) bind(c, name="kubist_table_close") result(status)
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int32_t) :: status
    end function
    function c_declare_writers(table, writers) bind(c, name="kubist_declare_writers") result(status)
      import :: c_char, c_int32_t, c_ptr
      type(c_ptr), value :: table
      character(kind=c_char), intent(in) :: writers(*)
      integer(c_int32_t) :: status
    end function
    function c_await_writers(table, own) bind(c, name="kubist_await_writers") result(status)
      import :: c_char, c_int32_t, c_ptr
      type(c_ptr), value :: table
      character(kind=c_char), intent(in) :: own(*)
      integer(c_int32_t) :: status
    end function
    function c_retract_after(table, step, rows) bind(c, name="kubist_retract_after") result(status)
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int64_t), value :: step
      integer(c_int64_t), intent(out) :: rows
      integer(c_int32_t) :: status
    end function
    function c_last_step(table, step, found) bind(c, name="kubist_last_step") result(status)
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: table
      integer(c_int64_t), intent(out) :: step
      integer(c_int32_t), intent(out) :: found
      integer(c_int32_t) :: status
    end function
    function c_count(table, query, rows) bind(c, name="kubist_count") result(status)
      import :: c_char, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: table
      character(kind=c_char), intent(in) :: query(*)
      integer(c_int64_t), intent(out) :: rows
      integer(c_int32_t) :: status
    end function
    function c_estimate(table, request, answer) bind(c, name="kubist_estimate") result(status)
      import :: c_char, c_int32_t, c_ptr
      type(c_ptr), value :: table
      character(kind=c_char), intent(in) :: request(*)
      type(c_ptr), intent(out) :: answer
      integer(c_int32_t) :: status
    end function
    subroutine c_string_free(text) bind(c, name="kubist_string_free")
      import :: c_ptr
      type(c_ptr), value :: text
    end subroutine
    function c_writer_open(table, options, writer) bind(c, name="kubist_writer_open") result(status)
      import :: c_char, c_int32_t, c_ptr
      type(c_ptr), value :: table
      character(kind=c_char), intent(in) :: options(*)
      type(c_ptr), intent(out) :: writer
      integer(c_int32_t) :: status
    end function
    function c_begin_step(writer, step) bind(c, name="kubist_begin_step") result(status)
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: writer
      integer(c_int64_t), value :: step
      integer(c_int32_t) :: status
    end function
    function c_put(writer, column, type, values, count, stride) bind(c, name="kubist_put") result(status)
      import :: c_char, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: writer
      character(kind=c_char), intent(in) :: column(*)
      integer(c_int32_t), value :: type
      type(c_ptr), value :: values
      integer(c_int64_t), value :: count, stride
      integer(c_int32_t) :: status
    end function
    function c_end_step(writer, options, report) bind(c, name="kubist_end_step") result(status)
      import :: c_char, c_int32_t, c_ptr
      type(c_ptr), value :: writer
      character(kind=c_char), intent(in) :: options(*)
      type(c_ptr), value :: report
      integer(c_int32_t) :: status
    end function
    function c_abandon_step(writer) bind(c, name="kubist_abandon_step") result(status)
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: writer
      integer(c_int32_t) :: status
    end function
    function c_wait(writer, step, timeout) bind(c, name="kubist_wait") result(status)
      import :: c_double, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: writer
      integer(c_int64_t), value :: step
      real(c_double), value :: timeout
      integer(c_int32_t) :: status
    end function
    function c_writer_close(writer, timeout) bind(c, name="kubist_writer_close") result(status)
      import :: c_double, c_int32_t, c_ptr
      type(c_ptr), value :: writer
      real(c_double), value :: timeout
      integer(c_int32_t) :: status
    end function
    function c_strlen(text) bind(c, name="strlen") result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! Returns the status through stat=, or without it stops the program on an error.
  subroutine kubist_settle(status, stat, errmsg)
    integer(c_int32_t), intent(in) :: status
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(stat)) stat = int(status)
    if (status == KUBIST_OK) return
    if (present(errmsg)) errmsg = from_c(c_message())
    if (.not. present(stat)) then
      write (error_unit, "(2a)") "kubist: ", from_c(c_message())
      error stop 1
    end if
  end subroutine

  function from_c(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: copy
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    if (.not. c_associated(text)) then
      copy = ""
      return
    end if
    call c_f_pointer(text, letters, [c_strlen(text)])
    allocate (character(size(letters)) :: copy)
    do i = 1, size(letters)
      copy(i:i) = letters(i)
    end do
  end function

  pure function to_c(text) result(ended)
    character(*), intent(in) :: text
    character(kind=c_char) :: ended(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
      ended(i) = text(i:i)
    end do
    ended(len_trim(text) + 1) = c_null_char
  end function

  pure function maybe_to_c(text) result(ended)
    character(*), intent(in), optional :: text
    character(kind=c_char), allocatable :: ended(:)
    if (present(text)) then
      ended = to_c(text)
    else
      ended = [c_null_char]
    end if
  end function

  ! Creates the table, or opens an existing one with the same definition.
  subroutine kubist_create(table, location, options, stat, errmsg)
    type(kubist_table), intent(out) :: table
    character(*), intent(in) :: location, options
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_right_version(stat, errmsg)) return
    call kubist_settle(c_create(to_c(location), to_c(options), table%handle), stat, errmsg)
  end subroutine

  subroutine kubist_open(table, location, stat, errmsg)
    type(kubist_table), intent(out) :: table
    character(*), intent(in) :: location
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_right_version(stat, errmsg)) return
    call kubist_settle(c_open(to_c(location), table%handle), stat, errmsg)
  end subroutine

  ! Checks that the library has the ABI version of this file.
  function is_right_version(stat, errmsg) result(is_right)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    logical :: is_right
    is_right = c_abi_version() == abi_version
    if (is_right) return
    if (present(errmsg)) errmsg = "kubist.f90 is for another version of libkubist"
    if (present(stat)) then
      stat = KUBIST_UNSUPPORTED
    else
      write (error_unit, "(a)") "kubist.f90 is for another version of libkubist"
      error stop 1
    end if
  end function

  subroutine kubist_drop(location, options, stat, errmsg)
    character(*), intent(in) :: location
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_drop(to_c(location), maybe_to_c(options)), stat, errmsg)
  end subroutine

  subroutine close_table(table, stat, errmsg)
    type(kubist_table), intent(inout) :: table
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_table_close(table%handle), stat, errmsg)
    table%handle = c_null_ptr
  end subroutine

  subroutine kubist_declare_writers(table, writers, stat, errmsg)
    type(kubist_table), intent(in) :: table
    character(*), intent(in) :: writers
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_declare_writers(table%handle, to_c(writers)), stat, errmsg)
  end subroutine

  ! Waits for the other writers of a job.
  subroutine kubist_await_writers(table, own, stat, errmsg)
    type(kubist_table), intent(in) :: table
    character(*), intent(in) :: own
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_await_writers(table%handle, to_c(own)), stat, errmsg)
  end subroutine

  subroutine kubist_retract_after(table, step, rows, stat, errmsg)
    type(kubist_table), intent(in) :: table
    integer(int64), intent(in) :: step
    integer(int64), intent(out), optional :: rows
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int64) :: gone
    gone = 0
    call kubist_settle(c_retract_after(table%handle, step, gone), stat, errmsg)
    if (present(rows)) rows = gone
  end subroutine

  ! The last complete step; found is false if there is none.
  subroutine kubist_last_step(table, step, found, stat, errmsg)
    type(kubist_table), intent(in) :: table
    integer(int64), intent(out) :: step
    logical, intent(out) :: found
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: is_there
    is_there = 0
    call kubist_settle(c_last_step(table%handle, step, is_there), stat, errmsg)
    found = is_there /= 0
  end subroutine

  subroutine kubist_count(table, rows, query, stat, errmsg)
    type(kubist_table), intent(in) :: table
    integer(int64), intent(out) :: rows
    character(*), intent(in), optional :: query
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    rows = 0
    call kubist_settle(c_count(table%handle, maybe_to_c(query), rows), stat, errmsg)
  end subroutine

  ! The result is JSON.
  subroutine kubist_estimate(table, request, answer, stat, errmsg)
    type(kubist_table), intent(in) :: table
    character(*), intent(in) :: request
    character(:), allocatable, intent(out) :: answer
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: text
    integer(c_int32_t) :: status
    text = c_null_ptr
    status = c_estimate(table%handle, to_c(request), text)
    answer = ""
    if (status == KUBIST_OK) then
      answer = from_c(text)
      call c_string_free(text)
    end if
    call kubist_settle(status, stat, errmsg)
  end subroutine

  subroutine kubist_open_writer(writer, table, options, stat, errmsg)
    type(kubist_writer), intent(out) :: writer
    type(kubist_table), intent(in) :: table
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_writer_open(table%handle, maybe_to_c(options), writer%handle), stat, errmsg)
  end subroutine

  subroutine kubist_begin_step(writer, step, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_begin_step(writer%handle, step), stat, errmsg)
  end subroutine

  subroutine kubist_end_step(writer, options, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_end_step(writer%handle, maybe_to_c(options), c_null_ptr), stat, errmsg)
  end subroutine

  subroutine kubist_abandon_step(writer, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_abandon_step(writer%handle), stat, errmsg)
  end subroutine

  ! Waits until all ended steps up to step are durable.
  subroutine kubist_wait(writer, step, timeout, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    integer(int64), intent(in), optional :: step
    real(real64), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: up_to
    up_to = huge(up_to)
    if (present(step)) up_to = step
    call kubist_settle(c_wait(writer%handle, up_to, seconds(timeout)), stat, errmsg)
  end subroutine

  ! Waits for queued steps. After KUBIST_BUSY it can be called again.
  subroutine close_writer(writer, timeout, stat, errmsg)
    type(kubist_writer), intent(inout) :: writer
    real(real64), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = c_writer_close(writer%handle, seconds(timeout))
    if (status /= KUBIST_BUSY .and. status /= KUBIST_CANCELLED) writer%handle = c_null_ptr
    call kubist_settle(status, stat, errmsg)
  end subroutine

  pure function seconds(timeout)
    real(real64), intent(in), optional :: timeout
    real(c_double) :: seconds
    seconds = forever
    if (present(timeout)) seconds = timeout
  end function

  subroutine put(writer, column, type, values, count, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(c_int32_t), intent(in) :: type
    type(c_ptr), intent(in) :: values
    integer(int64), intent(in) :: count
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call kubist_settle(c_put(writer%handle, to_c(column), type, values, count, 0_c_int64_t), stat, errmsg)
  end subroutine

  subroutine put_f32_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    real(real32), intent(in), contiguous, target :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_f32, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_f32_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    real(real32), intent(in), contiguous, target :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_f32, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_f64_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    real(real64), intent(in), contiguous, target :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_f64, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_f64_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    real(real64), intent(in), contiguous, target :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_f64, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_i32_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(int32), intent(in), contiguous, target :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_i32, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_i32_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(int32), intent(in), contiguous, target :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_i32, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_i64_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(int64), intent(in), contiguous, target :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_i64, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_i64_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(int64), intent(in), contiguous, target :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_i64, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_u8_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(int8), intent(in), contiguous, target :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_u8, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_u8_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    integer(int8), intent(in), contiguous, target :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put(writer, column, type_u8, place(size(values, kind=int64), c_loc(values)), size(values, kind=int64), stat, errmsg)
  end subroutine

  ! Logicals are stored as 1 and 0.
  subroutine put_logical_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    logical, intent(in) :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(int8), allocatable, target :: bytes(:)
    allocate (bytes(size(values, kind=int64)))
    bytes(:) = merge(1_int8, 0_int8, values)
    call put(writer, column, type_bool, place(size(bytes, kind=int64), c_loc(bytes)), size(bytes, kind=int64), stat, errmsg)
  end subroutine

  subroutine put_logical_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    logical, intent(in) :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put_logical_1(writer, column, reshape(values, [size(values, kind=int64)]), stat, errmsg)
  end subroutine

  ! C logicals, if the compiler's default kind differs.
  subroutine put_c_bool_1(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    logical(c_bool), intent(in) :: values(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put_logical_1(writer, column, logical(values), stat, errmsg)
  end subroutine

  subroutine put_c_bool_2(writer, column, values, stat, errmsg)
    type(kubist_writer), intent(in) :: writer
    character(*), intent(in) :: column
    logical(c_bool), intent(in) :: values(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call put_logical_2(writer, column, logical(values), stat, errmsg)
  end subroutine

  ! An empty array has no address.
  function place(count, first)
    integer(int64), intent(in) :: count
    type(c_ptr), intent(in) :: first
    type(c_ptr) :: place
    place = c_null_ptr
    if (count > 0) place = first
  end function

end module kubist
