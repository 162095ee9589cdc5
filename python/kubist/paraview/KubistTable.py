"""The ParaView plug-in: a source "Kubist Table" that shows rows as points with typed arrays.

It draws a uniform sample: the fraction Sample, or at most Limit points, whichever is smaller. The
array ``inclusion`` is each point's probability to be in the sample, so a point represents
1/inclusion rows. In ParaView's window, a thread refines the sample and reads each row once. All
ranks of a parallel server open the snapshot of the first rank, and read disjoint parts
(`Table.splits`). The table may also be the address of a server.

ParaView runs this file with its own Python and NumPy, and imports the package from the file's
folder. It needs ParaView 5.11 and Python 3.11, or newer.
"""

import sys
from pathlib import Path

import numpy as np
from paraview.modules.vtkRemotingCore import vtkProcessModule
from paraview.util.vtkAlgorithm import (
    VTKPythonAlgorithmBase,
    smdomain,
    smhint,
    smproperty,
    smproxy,
)
from vtkmodules.util.numpy_support import numpy_to_vtk, numpy_to_vtkIdTypeArray
from vtkmodules.vtkCommonCore import vtkDataArraySelection, vtkPoints, vtkStringArray
from vtkmodules.vtkCommonDataModel import vtkCellArray, vtkPolyData
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkParallelCore import vtkMultiProcessController

PACKAGES = str(Path(__file__).resolve().parents[2])
if PACKAGES not in sys.path:
    sys.path.append(PACKAGES)

import kubist  # noqa: E402
from kubist.paraview.reading import (  # noqa: E402
    FIRST_POINTS,
    PointStream,
    Changes,
    PointQuery,
    axes_of,
    distinct,
    levels,
    literal,
    on_all_ranks,
    open_at,
    quoted,
    same_snapshot,
    seconds,
)

INCLUSION = "inclusion"
"""The array of inclusion probabilities, unless the table has a column of that name."""


@smproxy.source(name="KubistTable", label="Kubist Table")
@smhint.xml('<LiveSource interval="250"/>')
class KubistTable(VTKPythonAlgorithmBase):
    def __init__(self):
        super().__init__(nInputPorts=0, nOutputPorts=1, outputType="vtkPolyData")
        self._path, self._table, self._snapshot = "", None, None
        self._token = ""
        self._sample, self._limit = 1.0, 1_000_000
        self._where = ""
        self._axes, self._time = ["", "", ""], ""
        self._use_box, self._position, self._length = 0, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
        self._live, self._progressive = 0, 1
        self._changes = None
        self._times = self._shown_times = None
        self._points, self._asked = None, None
        self._selection = vtkDataArraySelection()
        self._selection.AddObserver("ModifiedEvent", lambda *_: self.Modified())

    # Properties. -----------------------------------------------------------------------

    @smproperty.xml(
        """
        <StringVectorProperty name="Table" command="SetTable" number_of_elements="1"
            default_values="" panel_visibility="default">
          <FileListDomain name="files"/>
          <Hints><UseDirectoryName/></Hints>
          <Documentation>The directory of the table, or the address that kubist view printed, or
            ssh://user@host/path.</Documentation>
        </StringVectorProperty>"""
    )
    def SetTable(self, path):
        path = path or ""
        if path != self._path:
            self._path = path
            self._open()
            self.Modified()

    @smproperty.stringvector(
        name="SnapshotToken",
        label="Snapshot Token",
        default_values="",
        panel_visibility="advanced",
    )
    def SetSnapshotToken(self, token):
        """The token of the snapshot to show; empty: the newest snapshot at the opening."""
        token = token or ""
        if token != self._token:
            self._token = token
            if self._table is not None:
                self._show(self._first())

    @smproperty.stringvector(
        name="ShownToken",
        label="Shown Token",
        information_only="1",
        panel_visibility="advanced",
    )
    def GetShownToken(self):
        """The token of the shown snapshot, for other programs and later sessions."""
        return "" if self._snapshot is None else self._snapshot.token

    @smproperty.doublevector(name="Sample", default_values=[1.0])
    @smdomain.doublerange(min=0.0, max=1.0)
    def SetSample(self, sample):
        """The fraction of the rows to show, a uniform sample. Larger samples contain it."""
        if sample != self._sample:
            self._sample = sample
            self.Modified()

    @smproperty.intvector(name="Limit", default_values=[1_000_000])
    @smdomain.intrange(min=1, max=100_000_000)
    def SetLimit(self, limit):
        """The approximate maximum number of points, a uniform sample of all matching rows."""
        if limit != self._limit:
            self._limit = limit
            self.Modified()

    @smproperty.stringvector(name="Where", default_values="")
    def SetWhere(self, where):
        """A condition in SQL over any columns, as diameter > 2e-5 AND NOT deposited."""
        where = where or ""
        if where != self._where:
            self._where = where
            self.Modified()

    @smproperty.dataarrayselection(name="Columns")
    def GetColumns(self):
        return self._selection

    @smproperty.stringvector(name="XColumn", default_values="", panel_visibility="advanced")
    def SetXColumn(self, name):
        """The column of x; empty for all three: the table's dimensions in their order."""
        self._set_axis(0, name)

    @smproperty.stringvector(name="YColumn", default_values="", panel_visibility="advanced")
    def SetYColumn(self, name):
        """The column of y; empty, if x is set: 0."""
        self._set_axis(1, name)

    @smproperty.stringvector(name="ZColumn", default_values="", panel_visibility="advanced")
    def SetZColumn(self, name):
        """The column of z; empty, if x is set: 0."""
        self._set_axis(2, name)

    @smproperty.stringvector(name="TimeColumn", default_values="", panel_visibility="advanced")
    def SetTimeColumn(self, name):
        """The column of time steps; empty: a dimension named time, t, step or timestep, if any."""
        name = name or ""
        if name != self._time:
            self._time = name
            self._look()
            self.Modified()

    def _set_axis(self, place, name):
        name = name or ""
        if name != self._axes[place]:
            self._axes[place] = name
            self._look()
            self.Modified()

    @smproperty.xml(
        """
        <IntVectorProperty name="UseRegionOfInterest" label="Region Of Interest"
            command="SetUseRegion" number_of_elements="1" default_values="0">
          <BooleanDomain name="bool"/>
        </IntVectorProperty>
        <DoubleVectorProperty name="Position" command="SetPosition" number_of_elements="3"
            default_values="0 0 0"><DoubleRangeDomain name="range"/></DoubleVectorProperty>
        <DoubleVectorProperty name="Rotation" command="SetRotation" number_of_elements="3"
            default_values="0 0 0" panel_visibility="never"><DoubleRangeDomain name="range"/>
        </DoubleVectorProperty>
        <DoubleVectorProperty name="Scale" label="Length" command="SetLength"
            number_of_elements="3" default_values="1 1 1"><DoubleRangeDomain name="range"/>
        </DoubleVectorProperty>
        <PropertyGroup label="Region of Interest" panel_widget="InteractiveBox">
          <Property function="Position" name="Position"/>
          <Property function="Rotation" name="Rotation"/>
          <Property function="Scale" name="Scale"/>
          <Hints><PropertyWidgetDecorator type="GenericDecorator" mode="visibility"
              property="UseRegionOfInterest" value="1"/></Hints>
        </PropertyGroup>"""
    )
    def _region_xml(self):
        pass

    def SetUseRegion(self, use):
        self._use_box = use
        self.Modified()

    def SetPosition(self, x, y, z):
        self._position = [x, y, z]
        self.Modified()

    def SetRotation(self, x, y, z):
        """Ignored: boxes of a table are not rotated."""

    def SetLength(self, x, y, z):
        self._length = [x, y, z]
        self.Modified()

    @smproperty.intvector(name="Progressive", default_values=[1])
    @smdomain.xml('<BooleanDomain name="bool"/>')
    def SetProgressive(self, progressive):
        """Show coarse samples while finer ones are read; scripts always get the complete sample."""
        self._progressive = progressive

    @smproperty.intvector(name="Live", default_values=[0])
    @smdomain.xml('<BooleanDomain name="bool"/>')
    def SetLive(self, live):
        """Show new commits as they arrive."""
        self._live = live

    @smproperty.xml(
        """
        <Property name="Refresh" command="Refresh" panel_widget="command_button">
          <Documentation>Show what has been committed by now.</Documentation>
        </Property>"""
    )
    def Refresh(self):
        if self._table is not None:
            self._show(self._table.snapshot())

    def _show(self, snapshot):
        self._snapshot = snapshot
        self._look()
        self.Modified()

    def _first(self):
        return self._table.at(self._token) if self._token else self._table.snapshot()

    @smproperty.doublevector(
        name="TimestepValues", information_only="1", si_class="vtkSITimeStepsProperty"
    )
    def GetTimestepValues(self):
        return [] if self._shown_times is None else self._shown_times.tolist()

    def GetNeedsUpdate(self):
        """Whether there is more to show; ParaView's window calls it repeatedly."""
        changes = self._newest()
        if changes is not None:
            self._show(changes)
        elif self._points is not None and self._points.has_more():
            self.Modified()
        else:
            return False
        return True

    # Pipeline. -------------------------------------------------------------------------

    def _newest(self):
        """In live mode, the newest snapshot if it changed."""
        if not self._live or self._table is None:
            self._forget_changes()
            return None
        if self._points is not None and not self._points.is_read():
            return None  # The current query is completed first.
        if self._changes is None:
            self._changes = Changes(self._table, self._snapshot)
        return self._changes.take()

    def _forget_changes(self):
        if self._changes is not None:
            self._changes.stop()
        self._changes = None

    def _open(self):
        """Opens the table. The path may be a file of the table, because dialogs select files."""
        self._table = self._snapshot = None
        self._drop_points()
        self._forget_changes()
        if not self._path:
            return
        self._table = open_at(self._path)
        self._snapshot = self._first()
        for name in self._known():
            self._selection.AddArray(name)
        self._look()

    def _known(self):
        return self._snapshot.columns

    def _look(self):
        """Determines the columns of position and time, and the time steps."""
        self._times = self._shown_times = None
        if self._snapshot is None:
            return
        axes, time = axes_of(self._snapshot)
        self._coordinates = self._axes if any(self._axes) else axes
        self._when = self._time or time
        known = self._known()
        for name in filter(None, [*self._coordinates, self._when]):
            if name not in known:
                raise ValueError(f"there is no column {name}; the table has {', '.join(known)}")
        if self._when:
            self._times = distinct(self._snapshot, self._when)
        if self._times is not None and len(self._times):
            self._shown_times = seconds(self._times)

    def RequestInformation(self, request, inputs, outputs):
        out = outputs.GetInformationObject(0)
        keys = vtkStreamingDemandDrivenPipeline
        out.Remove(keys.TIME_STEPS())
        out.Remove(keys.TIME_RANGE())
        out.Set(self.CAN_HANDLE_PIECE_REQUEST(), 1)
        if self._shown_times is not None:
            for time in self._shown_times:
                out.Append(keys.TIME_STEPS(), time)
            out.Append(keys.TIME_RANGE(), self._shown_times[0])
            out.Append(keys.TIME_RANGE(), self._shown_times[-1])
        return 1

    def RequestData(self, request, inputs, outputs):
        out = outputs.GetInformationObject(0)
        data = vtkPolyData.GetData(outputs, 0)
        if self._snapshot is None:
            return 1
        keys = vtkStreamingDemandDrivenPipeline
        time = out.Get(keys.UPDATE_TIME_STEP()) if out.Has(keys.UPDATE_TIME_STEP()) else None
        try:
            self._agree()
            place, query, frames = self._read(time)
        except kubist.SnapshotExpired:
            # Files of the snapshot were deleted, so show the newest one.
            self._drop_points()
            self._show(self._table.snapshot())
            self._agree()
            place, query, frames = self._read(time)
        if place is not None:
            data.GetInformation().Set(data.DATA_TIME_STEP(), self._shown_times[place])
        self._fill(data, frames, query)
        return 1

    def _agree(self):
        """Makes all ranks show the snapshot of the first rank."""
        communicator = ranks()
        if communicator is None:
            return
        snapshot = same_snapshot(communicator, self._table, self._snapshot)
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._look()

    def _read(self, time):
        """The index of the time step, its query, and the frames so far."""
        place = None
        if self._shown_times is not None:
            wanted = self._shown_times[0] if time is None else time
            place = int(np.abs(self._shown_times - wanted).argmin())
        query = self._query_of(place)
        return place, query, self._frames(query)

    def _frames(self, query):
        """The frames so far; starts the query if it changed."""
        if self._asked != (query.key(), self._snapshot.token):
            self._ask(query)
        return self._points.take(10.0 if self._in_window() else None)

    def _in_window(self):
        """Whether this is ParaView's window, which calls again, not a script or a server."""
        program = vtkProcessModule.GetProcessModule().GetProgramPath() or ""
        return bool(self._progressive) and Path(program).name.startswith("paraview")

    def _query_of(self, place):
        box = {}
        if self._use_box:
            ends = zip(self._coordinates, self._position, self._length, strict=True)
            box = {name: (low, low + length) for name, low, length in ends if name}
        where = [f"({self._where})"] if self._where.strip() else []
        if place is not None:
            where.append(f"{quoted(self._when)} = {literal(self._times[place])}")
        chosen = [
            name
            for name in (
                self._selection.GetArrayName(i) for i in range(self._selection.GetNumberOfArrays())
            )
            if self._selection.ArrayIsEnabled(name)
        ]
        columns = list(dict.fromkeys([*filter(None, self._coordinates), *chosen]))
        sample = min(max(self._sample, 2.0**-60), 1.0)
        return PointQuery(box, " AND ".join(where) or None, columns, sample, self._limit)

    def _drop_points(self):
        if self._points is not None:
            self._points.stop()
        self._points = self._asked = None

    def _ask(self, query):
        self._drop_points()
        snapshot = self._snapshot
        communicator = ranks()

        def whole(low, high):
            return snapshot.query(
                box=query.box, where=query.where, columns=query.columns, window=(low, high)
            )

        if communicator is not None:
            self._points = self._shared_points(communicator, query, whole)
        else:
            share, points = query.share(snapshot)
            first = share * FIRST_POINTS / max(points, 1) if self._in_window() else share
            self._points = PointStream(whole, levels(share, first))
        self._asked = (query.key(), snapshot.token)
        if self._in_window():
            self._points.begin()
        elif communicator is None:
            self._points.read()

    def _shared_points(self, communicator, query, whole):
        """Reads this rank's part of the query, which the first rank splits."""
        snapshot = self._snapshot

        def cut():
            if communicator.rank > 0:
                return None
            share, _ = query.share(snapshot)
            if isinstance(snapshot, kubist.RemoteSnapshot):
                # Queries to a server cannot be split, so one rank shows all rows.
                return [(share, None), *[None] * (communicator.size - 1)]
            parts = snapshot.splits(
                communicator.size,
                box=query.box,
                where=query.where,
                columns=query.columns,
                sample=share,
            )
            return [(share, part.to_json()) for part in parts]

        share, part = communicator.scatter(on_all_ranks(communicator, cut), root=0) or (None, None)
        if part is not None:
            points = PointStream(lambda *_: kubist.Split.from_json(part).query(), [(0.0, share)])
        else:
            points = PointStream(whole, [] if share is None else [(0.0, share)])
        points.read()
        on_all_ranks(communicator, points.take)
        return points

    def _fill(self, data, frames, query):
        def column(name):
            return np.concatenate([frame[name] for frame in frames]) if frames else np.array([])

        count = sum(len(next(iter(frame.values()))) for frame in frames)
        axes = [column(name) if name else np.zeros(count) for name in self._coordinates]
        xyz = np.stack(
            [seconds(p) if p.dtype.kind == "M" and len(p) else p.astype(float) for p in axes],
            axis=1,
        )
        single = all(not name or column(name).dtype == np.float32 for name in self._coordinates)
        points = vtkPoints()
        points.SetData(
            numpy_to_vtk(np.ascontiguousarray(xyz, np.float32 if single else np.float64), deep=1)
        )
        data.SetPoints(points)
        verts = vtkCellArray()
        verts.SetData(
            numpy_to_vtkIdTypeArray(np.arange(count + 1, dtype=np.int64), deep=1),
            numpy_to_vtkIdTypeArray(np.arange(count, dtype=np.int64), deep=1),
        )
        data.SetVerts(verts)
        for name in query.columns:
            if self._selection.ArrayIsEnabled(name):
                data.GetPointData().AddArray(as_vtk(name, column(name)))
        if INCLUSION not in self._known():
            inclusion = np.full(count, self._points.inclusion())
            data.GetPointData().AddArray(as_vtk(INCLUSION, inclusion))


def ranks():
    """All ranks of a parallel server; None if there is only one."""
    controller = vtkMultiProcessController.GetGlobalController()
    if controller is None or controller.GetNumberOfProcesses() == 1:
        return None
    from vtkmodules.vtkParallelMPI4Py import vtkMPI4PyCommunicator

    return vtkMPI4PyCommunicator.ConvertToPython(controller.GetCommunicator())


def as_vtk(name, values):
    """A typed array of point data; times become integers in their own unit."""
    if values.dtype == object:
        array = vtkStringArray()
        array.SetNumberOfValues(len(values))
        for place, value in enumerate(values):
            array.SetValue(place, "" if value is None else value)
    else:
        if values.dtype.kind in "mM":
            values = values.astype(np.int64)
        elif values.dtype == np.bool_:
            values = values.astype(np.uint8)
        elif values.dtype == np.float16:
            values = values.astype(np.float32)
        array = numpy_to_vtk(np.ascontiguousarray(values), deep=1)
    array.SetName(name)
    return array
