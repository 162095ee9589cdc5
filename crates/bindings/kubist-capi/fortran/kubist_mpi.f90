! Kubist for MPI programs in Fortran 2008, based on kubist.f90: compile both with your mpif90.
!
!   call kubist_mpi_open(run, MPI_COMM_WORLD, "run.kubist", table_options)
!   call kubist_begin_step(run%writer, step)     ! each rank independently, as without MPI
!   call kubist_put(run%writer, "x", x)
!   call kubist_end_step(run%writer)
!   call kubist_mpi_close(run)
!
! Opening and closing are collective, for communicators of mpi_f08 and for integers. Calls between
! them are not, except kubist_mpi_end_step, with which all ranks end a step that has a budget.
! kubist_mpi.h describes the modes. With KUBIST_MPI_DEDICATED one rank of each node only commits,
! and run%solvers has the others:
!
!   if (run%solvers /= MPI_COMM_NULL) call compute(run%solvers, run%writer)
!   call kubist_mpi_close(run)                   ! a dedicated rank returns when all have closed
module kubist_mpi
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64, error_unit
  use mpi_f08
  use kubist
  implicit none
  private

  public :: kubist_mpi_run, kubist_mpi_open, kubist_mpi_end_step, kubist_mpi_close

  integer, parameter, public :: KUBIST_MPI_AUTO = 0, KUBIST_MPI_PER_RANK = 1, KUBIST_MPI_PER_NODE = 2, &
    KUBIST_MPI_DEDICATED = 3

  ! The leader, or this rank's lane in the ring: MPI_Finalize releases it if the run was not
  ! closed.
  type :: kept_handles
    type(c_ptr) :: leader = c_null_ptr, memory = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    integer(c_int32_t) :: lane = 0
  end type

  type :: kubist_mpi_run
    type(kubist_table) :: table
    type(kubist_writer) :: writer
    type(c_ptr) :: leader = c_null_ptr
    ! State that MPI_Finalize releases if the run was not closed, and its key.
    type(kept_handles), pointer :: kept => null()
    integer :: at_end = MPI_KEYVAL_INVALID
    integer :: mode = KUBIST_MPI_AUTO
    ! The computing ranks, for their own use; null in a dedicated one.
    type(MPI_Comm) :: solvers = MPI_COMM_NULL
    type(MPI_Comm) :: comm = MPI_COMM_NULL, node = MPI_COMM_NULL
    type(MPI_Win) :: window = MPI_WIN_NULL
    ! Seconds that a collective call waits for other ranks.
    real(real64) :: patience = 600
    ! A rank is missing: no further collective call is possible.
    logical :: torn = .false.
    character(1024) :: message = ""
  end type

  ! Sizes of a rank's share in a step, as KUBIST_SHARE_WORDS and KUBIST_SHARE_LARGEST in kubist.h.
  integer, parameter :: share_words = 7436, share_largest = 8

  interface kubist_mpi_open
    module procedure open_f08, open_integer
  end interface

  interface
    function c_ring_bytes(ranks, lane_bytes) bind(c, name="kubist_ring_bytes") result(bytes)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: ranks
      integer(c_int64_t), value :: lane_bytes
      integer(c_int64_t) :: bytes
    end function
    function c_ring_leave(memory, bytes, lane) bind(c, name="kubist_ring_leave") result(status)
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: memory
      integer(c_int64_t), value :: bytes
      integer(c_int32_t), value :: lane
      integer(c_int32_t) :: status
    end function
    function c_leader_start(table, options, memory, bytes, ranks, leader) &
      bind(c, name="kubist_leader_start") result(status)
      import :: c_char, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: table, memory
      character(kind=c_char), intent(in) :: options(*)
      integer(c_int64_t), value :: bytes
      integer(c_int32_t), value :: ranks
      type(c_ptr), intent(out) :: leader
      integer(c_int32_t) :: status
    end function
    function c_leader_close(leader, timeout) bind(c, name="kubist_leader_close") result(status)
      import :: c_double, c_int32_t, c_ptr
      type(c_ptr), value :: leader
      real(c_double), value :: timeout
      integer(c_int32_t) :: status
    end function
    function c_leader_abort(leader) bind(c, name="kubist_leader_abort") result(status)
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: leader
      integer(c_int32_t) :: status
    end function
    function c_writer_abort(writer) bind(c, name="kubist_writer_abort") result(status)
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: writer
      integer(c_int32_t) :: status
    end function
    function c_step_share(writer, words, largest) bind(c, name="kubist_step_share") result(status)
      import :: c_double, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: writer
      integer(c_int64_t), intent(out) :: words(*)
      real(c_double), intent(out) :: largest(*)
      integer(c_int32_t) :: status
    end function
    function c_step_settle(writer, words, largest, options, report) &
      bind(c, name="kubist_step_settle") result(status)
      import :: c_char, c_double, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: writer, report
      integer(c_int64_t), intent(in) :: words(*)
      real(c_double), intent(in) :: largest(*)
      character(kind=c_char), intent(in) :: options(*)
      integer(c_int32_t) :: status
    end function
    function c_writer_attach(table, options, memory, bytes, rank, writer) &
      bind(c, name="kubist_writer_attach") result(status)
      import :: c_char, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: table, memory
      character(kind=c_char), intent(in) :: options(*)
      integer(c_int64_t), value :: bytes
      integer(c_int32_t), value :: rank
      type(c_ptr), intent(out) :: writer
      integer(c_int32_t) :: status
    end function
  end interface

contains

  ! Opens the table for all ranks; the first creates it if table_options are given. writer_options are
  ! those of a writer without its name; steps after restart_after are retracted. A collective call waits
  ! up to collective_seconds (600) for other ranks, in addition to its own time.
  subroutine open_f08(run, comm, location, table_options, mode, lane_bytes, writer_options, &
                      restart_after, stat, errmsg, collective_seconds)
    type(kubist_mpi_run), intent(out) :: run
    type(MPI_Comm), intent(in) :: comm
    character(*), intent(in) :: location
    character(*), intent(in), optional :: table_options, writer_options
    integer, intent(in), optional :: mode
    integer(int64), intent(in), optional :: lane_bytes, restart_after
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: collective_seconds
    integer :: rank, ranks, node_rank, node_ranks, own(2), most(2), leads, nodes, node_number, color, status
    integer(int64) :: lane, shared(4)
    character(64) :: writers

    call check_launcher(run, status)
    if (status /= KUBIST_OK) then
      call say(run, status, stat, errmsg)
      return
    end if
    if (present(collective_seconds)) then
      if (collective_seconds > 0) run%patience = collective_seconds
    end if
    if (present(mode)) run%mode = mode
    if (run%mode < KUBIST_MPI_AUTO .or. run%mode > KUBIST_MPI_DEDICATED) then
      write (run%message, "(a, i0)") "kubist_mpi_open: there is no mode ", run%mode
      status = KUBIST_INVALID_INPUT
    end if
    ! On the caller's communicator, before the first call that could hang without all ranks.
    run%comm = comm
    call agree(run, status)
    run%comm = MPI_COMM_NULL
    if (status /= KUBIST_OK) then
      call say(run, status, stat, errmsg)
      return
    end if
    call MPI_Comm_dup(comm, run%comm)
    call MPI_Comm_rank(run%comm, rank)
    call MPI_Comm_size(run%comm, ranks)
    call MPI_Comm_split_type(run%comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, run%node)
    call MPI_Comm_rank(run%node, node_rank)
    call MPI_Comm_size(run%node, node_ranks)
    own = [node_ranks, -node_ranks]
    call MPI_Allreduce(own, most, 2, MPI_INTEGER, MPI_MAX, run%comm)
    ! All ranks use the options of the first rank.
    shared = [int(run%mode, int64), 16_int64 * 1024 * 1024, 0_int64, 0_int64]
    if (present(lane_bytes)) shared(2) = lane_bytes
    if (present(restart_after)) shared(3:4) = [1_int64, restart_after]
    call MPI_Bcast(shared, size(shared), MPI_INTEGER8, 0, run%comm)
    run%mode = int(shared(1))
    lane = shared(2)
    if (run%mode == KUBIST_MPI_AUTO) run%mode = merge(KUBIST_MPI_PER_RANK, KUBIST_MPI_PER_NODE, most(1) <= 4)
    leads = merge(1, 0, node_rank == merge(node_ranks - 1, 0, run%mode == KUBIST_MPI_DEDICATED))
    call MPI_Allreduce(leads, nodes, 1, MPI_INTEGER, MPI_SUM, run%comm)
    node_number = 0
    call MPI_Exscan(leads, node_number, 1, MPI_INTEGER, MPI_SUM, run%comm)
    if (rank == 0) node_number = 0
    color = merge(MPI_UNDEFINED, 0, run%mode == KUBIST_MPI_DEDICATED .and. leads == 1)
    call MPI_Comm_split(run%comm, color, rank, run%solvers)

    status = KUBIST_OK
    if (run%mode == KUBIST_MPI_DEDICATED .and. most(2) == -1) then
      run%message = "a node has one rank: the dedicated mode needs at least two ranks on each node"
      status = KUBIST_INVALID_INPUT
    else if (rank == 0) then
      if (present(table_options)) then
        call kubist_create(run%table, location, table_options, status, run%message)
      else
        call kubist_open(run%table, location, status, run%message)
      end if
      if (status == KUBIST_OK .and. shared(3) == 0) then
        write (writers, "(a, i0, a)") '{"count": ', merge(ranks, nodes, run%mode == KUBIST_MPI_PER_RANK), "}"
        call kubist_declare_writers(run%table, writers, status, run%message)
      end if
    end if
    call agree(run, status)
    if (status == KUBIST_OK) then
      if (rank /= 0) call kubist_open(run%table, location, status, run%message)
      call agree(run, status)
    end if
    if (status == KUBIST_OK .and. run%mode /= KUBIST_MPI_PER_RANK) then
      call open_node(run, lane, writer_options, node_number, status)
    else if (status == KUBIST_OK) then
      call kubist_open_writer(run%writer, run%table, named(run, writer_options, rank), status, run%message)
      call agree(run, status)
    end if
    if (status == KUBIST_OK .and. shared(3) /= 0) then
      if (rank == 0) call take_back(run, shared(4), merge(ranks, nodes, run%mode == KUBIST_MPI_PER_RANK), status)
      call agree(run, status)
    end if
    if (status /= KUBIST_OK) call release(run)
    call say(run, status, stat, errmsg)
  end subroutine

  ! Retracts the later steps once the old writers have ended, and declares this job's writers for the
  ! following steps. This job's own names are already free.
  subroutine take_back(run, after, count, status)
    type(kubist_mpi_run), intent(inout) :: run
    integer(int64), intent(in) :: after
    integer, intent(in) :: count
    integer, intent(out) :: status
    character(128) :: words
    character(4) :: kind
    kind = merge("rank", "node", run%mode == KUBIST_MPI_PER_RANK)
    write (words, "(3a, i0, a)") '{"kind": "', kind, '", "count": ', count, "}"
    call kubist_await_writers(run%table, words, status, run%message)
    if (status == KUBIST_OK) call kubist_retract_after(run%table, after, stat=status, errmsg=run%message)
    write (words, "(a, i0, a, i0, a)") '{"count": ', count, ', "after": ', after, "}"
    if (status == KUBIST_OK) call kubist_declare_writers(run%table, words, status, run%message)
  end subroutine

  ! For the integer handles of mpif.h and module mpi.
  subroutine open_integer(run, comm, location, table_options, mode, lane_bytes, writer_options, &
                          restart_after, stat, errmsg, collective_seconds)
    type(kubist_mpi_run), intent(out) :: run
    integer, intent(in) :: comm
    character(*), intent(in) :: location
    character(*), intent(in), optional :: table_options, writer_options
    integer, intent(in), optional :: mode
    integer(int64), intent(in), optional :: lane_bytes, restart_after
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: collective_seconds
    type(MPI_Comm) :: of_f08
    of_f08%MPI_VAL = comm
    call open_f08(run, of_f08, location, table_options, mode, lane_bytes, writer_options, restart_after, stat, errmsg, &
                  collective_seconds)
  end subroutine

  ! The ring, its leader, and this rank's lane.
  subroutine open_node(run, lane, writer_options, node_number, status)
    type(kubist_mpi_run), intent(inout) :: run
    integer(int64), intent(in) :: lane
    character(*), intent(in), optional :: writer_options
    integer, intent(in) :: node_number
    integer, intent(out) :: status
    integer(c_int64_t) :: bytes
    integer(MPI_ADDRESS_KIND) :: own, found
    integer :: rank, lanes, leader, unit, failed
    type(c_ptr) :: memory
    character(kind=c_char), allocatable :: options(:)
    call MPI_Comm_rank(run%node, rank)
    call MPI_Comm_size(run%node, lanes)
    leader = 0
    if (run%mode == KUBIST_MPI_DEDICATED) then
      lanes = lanes - 1
      leader = lanes
    end if
    bytes = c_ring_bytes(int(lanes, c_int32_t), lane)
    own = merge(bytes, 0_c_int64_t, rank == leader)
    ! A failed allocation must not end the job.
    call MPI_Comm_set_errhandler(run%node, MPI_ERRORS_RETURN)
    call MPI_Win_allocate_shared(own, 1, MPI_INFO_NULL, run%node, memory, run%window, failed)
    if (failed == MPI_SUCCESS) call MPI_Win_shared_query(run%window, leader, found, unit, memory, failed)
    status = KUBIST_OK
    if (failed /= MPI_SUCCESS) then
      write (run%message, "(a, i0, a)") "the ranks of a node cannot share ", bytes, &
        " bytes: enlarge /dev/shm, or reduce lane_bytes"
      status = KUBIST_UNAVAILABLE
    end if
    call agree(run, status)
    if (status /= KUBIST_OK) then
      ! Freeing a window is collective, and some ranks may have none.
      run%window = MPI_WIN_NULL
      return
    end if
    options = letters(named(run, writer_options, node_number))
    if (rank == leader) call kubist_settle( &
      c_leader_start(run%table%handle, options, memory, bytes, int(lanes, c_int32_t), run%leader), status, run%message)
    call agree(run, status)
    if (status /= KUBIST_OK) return
    if (run%solvers /= MPI_COMM_NULL) call kubist_settle( &
      c_writer_attach(run%table%handle, options, memory, bytes, int(rank, c_int32_t), run%writer%handle), &
      status, run%message)
    if (status == KUBIST_OK) call keep(run, memory, bytes, rank)
    call agree(run, status)
  end subroutine

  ! Ends the step on all computing ranks, within their common budget. If a rank cannot end it,
  ! that rank gets its error, the others get KUBIST_UNAVAILABLE, and the step stays open: end it
  ! together again, or abandon it. Call it also after a failed kubist_begin_step or kubist_put,
  ! because the other ranks wait; without a step or with a missing column, the rank takes part as
  ! one that cannot end it. After KUBIST_BUSY the rank ends it with kubist_end_step.
  subroutine kubist_mpi_end_step(run, options, stat, errmsg)
    type(kubist_mpi_run), intent(inout) :: run
    character(*), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    ! A missing rank could still write to this memory.
    integer(c_int64_t), pointer, contiguous, asynchronous :: mine(:), words(:)
    real(c_double), pointer, contiguous, asynchronous :: own(:), largest(:)
    type(MPI_Request) :: requests(2)
    integer :: status, ended
    if (run%torn .or. run%solvers == MPI_COMM_NULL) then
      run%message = "this run is closed, has lost a rank, or this rank only commits"
      call say(run, KUBIST_UNAVAILABLE, stat, errmsg)
      return
    end if
    allocate (mine(share_words), words(share_words), own(share_largest), largest(share_largest))
    call kubist_settle(c_step_share(run%writer%handle, mine, own), status, run%message)
    call MPI_Iallreduce(mine, words, share_words, MPI_INTEGER8, MPI_SUM, run%solvers, requests(1))
    call MPI_Iallreduce(own, largest, share_largest, MPI_DOUBLE_PRECISION, MPI_MAX, run%solvers, requests(2))
    call await(run, requests, 0.0_real64, ended)
    if (ended /= KUBIST_OK) then
      call say(run, ended, stat, errmsg)
      return
    end if
    if (status == KUBIST_OK) then
      if (present(options)) then
        call kubist_settle( &
          c_step_settle(run%writer%handle, words, largest, letters(options), c_null_ptr), status, run%message)
      else
        call kubist_settle( &
          c_step_settle(run%writer%handle, words, largest, letters("{}"), c_null_ptr), status, run%message)
      end if
    end if
    deallocate (mine, words, own, largest)
    call say(run, status, stat, errmsg)
  end subroutine

  ! Waits for queued steps, up to the timeout on each rank and again on each leader, and closes
  ! all. Steps that could not be written in time are dropped, and the status reports it. A
  ! dedicated rank calls it immediately, and waits without a timeout until the ranks of its node
  ! have closed.
  subroutine kubist_mpi_close(run, timeout, stat, errmsg)
    type(kubist_mpi_run), intent(inout) :: run
    real(real64), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: status, of_leader
    real(c_double) :: seconds
    character(1024) :: why
    ! Opening failed, or the run is already closed.
    if (run%comm == MPI_COMM_NULL) then
      call say(run, KUBIST_OK, stat, errmsg)
      return
    end if
    seconds = 1.0e18_c_double
    if (present(timeout)) seconds = timeout
    run%message = ""
    if (run%solvers == MPI_COMM_NULL) then
      call close_leader(run, 1.0e18_c_double, status)
    else
      call kubist_close(run%writer, seconds, status, run%message)
    end if
    call agree(run, status, seconds)
    why = run%message
    of_leader = KUBIST_OK
    if (c_associated(run%leader) .and. run%solvers /= MPI_COMM_NULL) &
      call close_leader(run, merge(seconds, 0.0_c_double, status == KUBIST_OK), of_leader)
    ! Also after an error, because another rank may use these resources.
    call agree(run, of_leader, seconds)
    if (status == KUBIST_OK) then
      status = of_leader
    else
      run%message = why
    end if
    call release(run)
    call say(run, status, stat, errmsg)
  end subroutine

  subroutine close_leader(run, seconds, status)
    type(kubist_mpi_run), intent(inout) :: run
    real(c_double), intent(in) :: seconds
    integer, intent(out) :: status
    call kubist_settle(c_leader_close(run%leader, seconds), status, run%message)
    if (status /= KUBIST_BUSY .and. status /= KUBIST_CANCELLED) run%leader = c_null_ptr
  end subroutine

  ! Detects a program that another MPI's mpirun started: each process then sees a world of size 1.
  subroutine check_launcher(run, status)
    type(kubist_mpi_run), intent(inout) :: run
    integer, intent(out) :: status
    character(*), parameter :: names(2) = [character(20) :: "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]
    character(*), parameter :: launchers(2) = [character(22) :: "Open MPI", "MPICH or one like it"]
    character(MPI_MAX_LIBRARY_VERSION_STRING) :: library
    character(16) :: value
    integer :: ranks, started, length, bad, n
    status = KUBIST_OK
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    if (ranks > 1) return
    do n = 1, 2
      call get_environment_variable(trim(names(n)), value, status=bad)
      if (bad /= 0) cycle
      read (value, *, iostat=bad) started
      if (bad /= 0) cycle
      if (started <= 1) cycle
      call MPI_Get_library_version(library, length)
      length = scan(library(:length), "," // new_line("a")) - 1
      if (length < 0) length = len_trim(library)
      write (run%message, "(3a, i0, 3a)") "this program is of ", library(:min(length, 200)), &
        ", and was started as one of ", started, " processes by ", trim(launchers(n)), &
        ": start it with its own mpirun"
      status = KUBIST_INVALID_INPUT
      return
    end do
  end subroutine

  ! Waits until all ranks have joined the request; more seconds are added to the patience.
  subroutine await(run, requests, more, status)
    type(kubist_mpi_run), intent(inout) :: run
    type(MPI_Request), intent(inout) :: requests(:)
    real(real64), intent(in) :: more
    integer, intent(out) :: status
    real(real64) :: end
    logical :: done
    end = MPI_Wtime() + run%patience + max(more, 0.0_real64)
    do
      call MPI_Testall(size(requests), requests, done, MPI_STATUSES_IGNORE)
      status = KUBIST_OK
      if (done) return
      if (MPI_Wtime() >= end) exit
    end do
    run%torn = .true.
    write (run%message, "(a, f0.1, a)") "a rank did not come to a collective call within ", run%patience, &
      " s: it has died, or does something else"
    status = KUBIST_UNAVAILABLE
  end subroutine

  ! Gives all ranks the worst status of any rank, with its message. Memory that a missing rank
  ! could still write to is not freed.
  subroutine agree(run, status, more)
    type(kubist_mpi_run), intent(inout) :: run
    integer, intent(inout) :: status
    real(real64), intent(in), optional :: more
    integer, pointer, contiguous, asynchronous :: mine(:), worst(:)
    character(len(run%message)), pointer, asynchronous :: message
    type(MPI_Request) :: request(1)
    real(real64) :: besides
    integer :: ended
    if (run%torn) then
      status = KUBIST_UNAVAILABLE
      return
    end if
    besides = 0
    if (present(more)) besides = more
    allocate (mine(2), worst(2))
    mine(1) = status
    call MPI_Comm_rank(run%comm, mine(2))
    call MPI_Iallreduce(mine, worst, 1, MPI_2INTEGER, MPI_MAXLOC, run%comm, request(1))
    call await(run, request, besides, ended)
    status = ended
    if (ended /= KUBIST_OK) return
    status = worst(1)
    if (status /= KUBIST_OK) then
      allocate (message)
      message = run%message
      call MPI_Ibcast(message, len(message), MPI_CHARACTER, worst(2), run%comm, request(1))
      call await(run, request, 0.0_real64, ended)
      if (ended /= KUBIST_OK) then
        status = ended
        return
      end if
      run%message = message
      deallocate (message)
    end if
    deallocate (mine, worst)
  end subroutine

  ! Lets MPI_Finalize release this rank's part of the ring of an unclosed run, because the memory
  ! goes then.
  subroutine keep(run, memory, bytes, lane)
    type(kubist_mpi_run), intent(inout) :: run
    type(c_ptr), intent(in) :: memory
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(in) :: lane
    allocate (run%kept)
    run%kept%leader = run%leader
    if (.not. c_associated(run%leader)) run%kept%memory = memory
    run%kept%bytes = bytes
    run%kept%lane = int(lane, c_int32_t)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_unclosed, run%at_end, 0_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_SELF, run%at_end, transfer(c_loc(run%kept), 0_MPI_ADDRESS_KIND))
  end subroutine

  ! Ends a leader that was not closed, or informs it that this rank has ended.
  subroutine end_unclosed(comm, key, value, extra, failed)
    type(MPI_Comm) :: comm
    integer :: key, failed
    integer(MPI_ADDRESS_KIND) :: value, extra
    type(kept_handles), pointer :: kept
    integer(c_int32_t) :: ignored
    call c_f_pointer(transfer(value, c_null_ptr), kept)
    if (c_associated(kept%memory)) ignored = c_ring_leave(kept%memory, kept%bytes, kept%lane)
    ignored = c_leader_abort(kept%leader)
    deallocate (kept)
    failed = MPI_SUCCESS
  end subroutine

  subroutine release(run)
    type(kubist_mpi_run), intent(inout) :: run
    integer(c_int32_t) :: ignored
    integer :: unheard
    ignored = c_writer_abort(run%writer%handle)
    if (associated(run%kept)) then
      run%kept%leader = run%leader
      run%kept%memory = c_null_ptr
      call MPI_Comm_delete_attr(MPI_COMM_SELF, run%at_end)
      call MPI_Comm_free_keyval(run%at_end)
      run%kept => null()
    else
      ignored = c_leader_abort(run%leader)
    end if
    run%writer%handle = c_null_ptr
    run%leader = c_null_ptr
    call kubist_close(run%table, unheard)
    ! Collective frees would hang if a rank is missing.
    if (run%torn) run%window = MPI_WIN_NULL
    if (run%torn) run%node = MPI_COMM_NULL
    if (run%torn) run%solvers = MPI_COMM_NULL
    if (run%torn) run%comm = MPI_COMM_NULL
    if (run%window /= MPI_WIN_NULL) call MPI_Win_free(run%window)
    if (run%node /= MPI_COMM_NULL) call MPI_Comm_free(run%node)
    if (run%solvers /= MPI_COMM_NULL) call MPI_Comm_free(run%solvers)
    if (run%comm /= MPI_COMM_NULL) call MPI_Comm_free(run%comm)
  end subroutine

  subroutine say(run, status, stat, errmsg)
    type(kubist_mpi_run), intent(in) :: run
    integer, intent(in) :: status
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(stat)) stat = status
    if (status == KUBIST_OK) return
    if (present(errmsg)) errmsg = run%message
    if (present(stat)) return
    write (error_unit, "(2a)") "kubist: ", trim(run%message)
    error stop 1
  end subroutine

  ! Writer options with its name.
  function named(run, options, number)
    type(kubist_mpi_run), intent(in) :: run
    character(*), intent(in), optional :: options
    integer, intent(in) :: number
    character(:), allocatable :: named
    character(:), allocatable :: rest
    character(100) :: name
    write (name, "(3a, i0, a)") '{"name": "', merge("rank", "node", run%mode == KUBIST_MPI_PER_RANK), "-", number, &
      '", "tokens": true, "shared": true'
    if (run%mode == KUBIST_MPI_DEDICATED) name = trim(name) // ', "dedicated": true'
    rest = "}"
    if (present(options)) rest = adjustl(trim(options))
    if (index(rest, "{") == 1) rest = adjustl(trim(rest(2:)))
    if (len_trim(rest) == 0) rest = "}"
    if (rest(1:1) == "}") then
      named = trim(name) // "}"
    else
      named = trim(name) // ", " // trim(rest)
    end if
  end function

  pure function letters(text)
    character(*), intent(in) :: text
    character(kind=c_char) :: letters(len(text) + 1)
    integer :: i
    do i = 1, len(text)
      letters(i) = text(i:i)
    end do
    letters(len(text) + 1) = c_null_char
  end function

end module kubist_mpi
