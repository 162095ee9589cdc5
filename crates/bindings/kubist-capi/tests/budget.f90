! The same as budget.c, in Fortran. Arguments: table, mode (rank, node), options of the writer.
program budget
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use kubist
  use kubist_mpi
  implicit none
  integer, parameter :: particles = 6000, steps = 4
  character(*), parameter :: table_options = &
    '{"columns": {"x": "f64", "time": "f64", "pid": "i64", "hot": "bool"}, ' // &
    '"dimensions": {"x": [0, 1], "time": [0, 8]}, "identity": ["pid", "time"]}'
  type(kubist_mpi_run) :: run
  character(1024) :: location, mode, options, message
  real(real64), allocatable :: x(:)
  integer(int64), allocatable :: pid(:)
  logical, allocatable :: hot(:)
  integer(int64) :: i, step
  integer :: rank, ranks, status, by
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, location)
  call get_command_argument(2, mode)
  call get_command_argument(3, options)
  by = merge(KUBIST_MPI_PER_NODE, KUBIST_MPI_PER_RANK, mode == "node")
  call kubist_mpi_open(run, MPI_COMM_WORLD, trim(location), table_options, mode=by, writer_options=trim(options))
  do step = 1, steps
    pid = pack([(i, i = 0, particles - 1)], [(mod(i + step, int(ranks, int64)) == rank, i = 0, particles - 1)])
    x = real(mod(pid, 1000_int64), real64) / 1000
    if (step == 3) x = x / 1000
    hot = mod(pid, 1500_int64) == 7
    call kubist_begin_step(run%writer, step)
    call kubist_put(run%writer, "x", x)
    call kubist_put(run%writer, "pid", pid)
    call kubist_put(run%writer, "hot", hot)
    if (step == 2) then
      ! One rank lacks a column, so all ranks get an error and abandon the step.
      if (rank /= ranks - 1) call kubist_put(run%writer, "time", spread(real(step, real64), 1, size(x)))
      call kubist_mpi_end_step(run, stat=status, errmsg=message)
      if (status /= merge(KUBIST_INVALID_INPUT, KUBIST_UNAVAILABLE, rank == ranks - 1)) error stop 3
      if (index(message, trim(merge("time  ", "step 2", rank == ranks - 1))) == 0) error stop 4
      call kubist_abandon_step(run%writer)
    else
      call kubist_put(run%writer, "time", spread(real(step, real64), 1, size(x)))
      call kubist_mpi_end_step(run)
    end if
  end do
  call kubist_mpi_close(run, timeout=60.0_real64)
  call MPI_Finalize()
end program budget
