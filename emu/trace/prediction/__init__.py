"""What a recorded run would take on a device that is described by a file.

``devices`` (files, overrides) ← ``reuse``, ``kernels`` (a launch), ``links`` (messages, collectives) ← ``pricing`` (an event) ← ``replay`` (the recorded order
with predicted durations; ``steps`` divides a lane) ← ``prediction``. ``counts`` reads what was counted of a kernel. ``calibration`` fits a device's
efficiencies to measured times, ``rank`` orders configurations, ``turns`` those of MC2's operators.

Internal: names may change in any release.
"""
