"""Shows the droplets of `make demo` in ParaView.

The first command writes the ParaView state airway.pvsm, the second a picture of it:

    plugin=$(kubist paraview-path)
    export PYTHONPATH=$(dirname "$plugin")/debian12
    script=examples/airway/in_paraview.py state=examples/airway/airway.pvsm
    pvpython $script "$plugin" state $state
    pvpython $script "$plugin" picture $state docs/paraview.png

Run both in the folder that contains `demo/airway.kubist`, because the state stores this relative
path. Only the ParaView 5.11 of Debian 12 needs PYTHONPATH.
"""

import sys

from paraview.simple import (
    Calculator,
    ColorBy,
    CreateView,
    GetActiveViewOrCreate,
    GetAnimationScene,
    GetColorTransferFunction,
    GetScalarBar,
    GetTimeKeeper,
    LoadPlugin,
    LoadState,
    SaveScreenshot,
    SaveState,
    Show,
)

TABLE = "demo/airway.kubist"
SIZE = [1360, 760]
TIME = 0.6
# Radius in metres of a point that represents one row.
RADIUS = 0.0007
# The top of the colour map in m/s.
FASTEST = 5.0
NIGHT, INK = [0.035, 0.043, 0.06], [0.85, 0.87, 0.9]


def calculator(source, name, function):
    calculated = Calculator(registrationName=name, Input=source)
    calculated.AttributeType = "Point Data"
    calculated.ResultArrayName, calculated.Function = name, function
    return calculated


def droplets():
    """Droplets that are not deposited, with the speed and the drawn size of each point."""
    table = KubistTable(registrationName="airway.kubist", Table=TABLE)  # noqa: F821  (the plug-in's)
    table.Where = "NOT deposited"
    table.Limit = 200_000
    speed = calculator(table, "speed", "sqrt(ux*ux + uy*uy + uz*uz)")
    # A sampled point represents 1/inclusion rows. Its area is proportional to this number, so small
    # and large samples cover the same fraction of the image.
    return calculator(speed, "size", "sqrt(1/inclusion)")


def view_of(points):
    view = CreateView("RenderView")
    view.ViewSize = SIZE
    view.UseColorPaletteForBackground = 0
    view.Background = NIGHT
    view.CameraParallelProjection = 0
    view.CameraFocalPoint = [0.108, -0.004, -0.012]
    view.CameraPosition = [-0.28, 0.36, 0.3]
    view.CameraViewUp = [0, 0, 1]
    view.CameraViewAngle = 29
    display = Show(points, view)
    display.Representation = "Point Gaussian"
    display.ShaderPreset = "Sphere"
    display.GaussianRadius = RADIUS
    display.ScaleByArray, display.SetScaleArray, display.UseScaleFunction = 1, ["POINTS", "size"], 0
    colour(display, view)
    axes(view.AxesGrid)
    view.OrientationAxesLabelColor = INK
    return view


def colour(display, view):
    ColorBy(display, ("POINTS", "speed"))
    colors = GetColorTransferFunction("speed")
    colors.ApplyPreset("Inferno (matplotlib)", True)
    # The darkest colours would be invisible on the background, so the map starts below speed 0, and
    # the lines below remove this part.
    colors.RescaleTransferFunction(-1.5, FASTEST)
    stops = [colors.RGBPoints[k : k + 4] for k in range(0, len(colors.RGBPoints), 4)]
    colors.RGBPoints = [0, *next(stop[1:] for stop in stops if stop[0] >= 0)] + [
        number for stop in stops if stop[0] > 0 for number in stop
    ]
    bar = GetScalarBar(colors, view)
    bar.Title, bar.ComponentTitle = "speed [m/s]", ""
    bar.TitleColor = bar.LabelColor = INK
    bar.Orientation, bar.WindowLocation = "Vertical", "Any Location"
    bar.Position, bar.ScalarBarLength = [0.92, 0.08], 0.4
    bar.UseCustomLabels, bar.CustomLabels = 1, [0, 1, 2, 3, 4, 5]
    bar.AddRangeLabels = 0
    display.SetScalarBarVisibility(view, True)


def axes(grid):
    grid.Visibility = 1
    grid.XTitle, grid.YTitle, grid.ZTitle = "x [m]", "y [m]", "z [m]"
    for axis in "XYZ":
        setattr(grid, f"{axis}TitleColor", INK)
        setattr(grid, f"{axis}LabelColor", INK)
        setattr(grid, f"{axis}AxisUseCustomLabels", 1)
    grid.XAxisLabels = [0, 0.05, 0.1, 0.15, 0.2]
    grid.YAxisLabels = [-0.1, 0, 0.1, 0.2]
    grid.ZAxisLabels = [0, 0.02]
    grid.GridColor = [0.4, 0.43, 0.48]
    grid.ShowGrid = 0


def make_state(path):
    view = view_of(droplets())
    GetAnimationScene().UpdateAnimationUsingDataTimeSteps()
    # The last step; the buttons in the window play all steps.
    view.ViewTime = GetTimeKeeper().Time = GetAnimationScene().AnimationTime = TIME
    SaveState(path)


def make_picture(state, path):
    LoadState(state)
    view = GetActiveViewOrCreate("RenderView")
    SaveScreenshot(path, view, ImageResolution=SIZE)


plugin, what, *paths = sys.argv[1:]
LoadPlugin(plugin, ns=globals())
{"state": make_state, "picture": make_picture}[what](*paths)
