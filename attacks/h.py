import sys, os, time, json, dataclasses, shutil, signal, subprocess
sys.path[:0]=["/work/wt/attack","/work/wt/attack/tests/support"]
from pathlib import Path
from nbtest import daemons, proc, users
from nbtest.town import *
from nbtest.town import Town, BOB, CAROL, MALLORY, TRUSTED, as_user, crash_with
from nbcache.store import layout, standing, first_calls, quarantine, entry
from nbcache.protocol import requests, spool
from storekit import open_store, SECTIONS, header, key
EVE=54329
def fresh(name):
    p=Path("/tmp/attack/t")/name
    if p.exists(): shutil.rmtree(p)
    p.mkdir(mode=0o755); p.chmod(0o755)
    t=Town(p, proc.interpreter_for(BOB))
    (p/"eve").mkdir(); os.chown(p/"eve",EVE,EVE)
    return t
def runtime(t,uid,main,**more):
    b=time.time(); o=proc.run([main], t.store, {**t.packages, **more}, python=t.python, user=uid); 
    return time.time()-b, o
