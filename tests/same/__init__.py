"""`make same`: the results of the present code against a recorded manifest, for changes that must not change any.

| module | what is in it |
|---|---|
| `items.py` | what an item is, and which there are |
| `loads.py` | machines and programs that are made here, each crowded in its own way |
| `traces.py`, `commands.py`, `goldens.py` | the items: traced runs, commands, what the suite pins and the published cases |
| `inputs.py` | the files that items read |
| `runner.py` | runs items and says what they left behind, as hashes |
| `manifest.py`, `manifest.txt` | what was recorded, and how it is compared |
"""
