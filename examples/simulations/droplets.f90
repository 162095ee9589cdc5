! Droplets that drift through a tube, as in droplets.c.
!
!   mpif90 kubist.f90 kubist_mpi.f90 droplets.f90 -o droplets -lkubist
!   mpirun -n 4 ./droplets droplets.kubist 20 100000
program droplets
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use mpi_f08
  use kubist
  use kubist_mpi
  implicit none

  character(*), parameter :: table_options = '{"columns": {"x": {"type": "f64", "unit": "m"}, &
    &"y": "f64", "time": "f64", "diameter": "f32", "pid": "i64", "rank": "i32", "deposited": "bool"}, &
    &"dimensions": {"x": [0, 1], "y": [0, 1], "time": [0, 1]}, "identity": ["pid", "time"]}'

  type(kubist_mpi_run) :: run
  character(256) :: location
  integer(int64) :: steps, n, step, i
  ! If it is not allocated, the argument is absent.
  integer(int64), allocatable :: checkpoint
  integer :: rank, mode
  real(real64), allocatable :: place(:, :)
  real(real32), allocatable :: diameter(:)
  integer(int64), allocatable :: pid(:)
  logical, allocatable :: deposited(:)

  call MPI_Init()
  call arguments()
  call kubist_mpi_open(run, MPI_COMM_WORLD, trim(location), table_options, mode=mode, &
                       writer_options='{"queue": 2}', restart_after=checkpoint)
  ! A dedicated rank computes nothing, and its close returns when all have closed.
  if (run%solvers /= MPI_COMM_NULL) call compute()
  call kubist_mpi_close(run, timeout=300.0_real64)
  call MPI_Finalize()

contains

  subroutine compute()
    call MPI_Comm_rank(run%solvers, rank)
    allocate (place(2, n), diameter(n), pid(n), deposited(n))
    pid = [(rank * n + i, i = 0, n - 1)]
    place(1, :) = real(mod(pid, 64_int64), real64) / 128
    place(2, :) = real(mod(pid, 1024_int64), real64) / 1024
    diameter = real(mod(pid, 7_int64), real32)
    deposited = .false.
    do step = 1, steps
      where (.not. deposited) place(1, :) = place(1, :) + 0.015625_real64
      deposited = place(1, :) > 0.9375_real64
      if (allocated(checkpoint)) then
        if (step <= checkpoint) cycle
      end if
      call kubist_begin_step(run%writer, step)
      ! The compiler copies every second value, and Kubist copies that.
      call kubist_put(run%writer, "x", place(1, :))
      call kubist_put(run%writer, "y", place(2, :))
      call kubist_put(run%writer, "time", spread(real(step, real64) / 1024, 1, int(n)))
      call kubist_put(run%writer, "diameter", diameter)
      call kubist_put(run%writer, "pid", reshape(pid, [n, 1_int64]))
      call kubist_put(run%writer, "rank", spread(int(rank, int32), 1, int(n)))
      call kubist_put(run%writer, "deposited", deposited)
      call kubist_end_step(run%writer)
    end do
  end subroutine

  ! Table, steps, droplets of each rank, mode (auto, rank, node, dedicated), a checkpoint to continue from.
  subroutine arguments()
    character(32) :: text
    location = "droplets.kubist"
    steps = 20
    n = 100000
    mode = KUBIST_MPI_AUTO
    if (command_argument_count() >= 1) call get_command_argument(1, location)
    if (command_argument_count() >= 2) then
      call get_command_argument(2, text)
      read (text, *) steps
    end if
    if (command_argument_count() >= 3) then
      call get_command_argument(3, text)
      read (text, *) n
    end if
    if (command_argument_count() >= 4) then
      call get_command_argument(4, text)
      if (text == "rank") mode = KUBIST_MPI_PER_RANK
      if (text == "node") mode = KUBIST_MPI_PER_NODE
      if (text == "dedicated") mode = KUBIST_MPI_DEDICATED
    end if
    if (command_argument_count() >= 5) then
      allocate (checkpoint)
      call get_command_argument(5, text)
      read (text, *) checkpoint
    end if
  end subroutine

end program droplets
