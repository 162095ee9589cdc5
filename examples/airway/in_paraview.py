"""The droplets of `make demo` in ParaView, as a picture: docs/paraview.png.

    plugin=$(kubist paraview-path)
    export PYTHONPATH=$(dirname "$plugin")/debian12
    pvpython examples/airway/in_paraview.py "$plugin" demo/airway.kubist docs/paraview.png

The PYTHONPATH is for ParaView 5.11 of Debian 12 only.
"""

import sys

from paraview.simple import (
    ColorBy,
    CreateView,
    GetAnimationScene,
    GetColorTransferFunction,
    GetScalarBar,
    LoadPlugin,
    SaveScreenshot,
    Show,
)

SIZE = [900, 760]

plugin, table, picture = sys.argv[1:]
LoadPlugin(plugin, ns=globals())
droplets = KubistTable(Table=table, Where="NOT deposited")  # noqa: F821  (the plug-in's)
view = CreateView("RenderView")
view.ViewSize = SIZE
view.UseColorPaletteForBackground = 0
view.Background = [1, 1, 1]
view.OrientationAxesVisibility = 0
scene = GetAnimationScene()
scene.UpdateAnimationUsingDataTimeSteps()
view.ViewTime = scene.TimeKeeper.TimestepValues[-1]

shown = Show(droplets, view)
shown.Representation = "Points"
shown.PointSize = 2
ColorBy(shown, ("POINTS", "ux"))
colors = GetColorTransferFunction("ux")
colors.ApplyPreset("Viridis (matplotlib)", True)
bar = GetScalarBar(colors, view)
bar.Title, bar.ComponentTitle = "ux", ""
bar.TitleColor = bar.LabelColor = [0, 0, 0]
bar.Position, bar.ScalarBarLength = [0.08, 0.55], 0.35
shown.SetScalarBarVisibility(view, True)

view.CameraParallelProjection = 1
view.CameraFocalPoint = [0.12, 0.0, 0.01]
view.CameraPosition = [-0.25, -0.3, 0.5]
view.CameraViewUp = [0, 1, 0]
view.CameraParallelScale = 0.185
SaveScreenshot(picture, view, ImageResolution=SIZE)
