//! The arithmetic against numbers worked out apart from it, from the documented formulas: parameters, the picture's sides,
//! then the part and its new size, and the canvas with the place of the picture on it.

use super::*;
use crate::image::small_light::parameters::Parameters;

#[rustfmt::skip]
const TABLE: &[(&str, (u32, u32), &str)] = &[
    ("dw=250,dh=250", (640, 427), "0,0 640x427 > 250x166 | -"),
    ("dw=250,dh=250", (427, 640), "0,0 427x640 > 166x250 | -"),
    ("dw=250,dh=250", (100, 80), "- | -"),
    ("dw=250,dh=250", (3000, 2000), "0,0 3000x2000 > 250x166 | -"),
    ("dw=250", (640, 427), "0,0 640x427 > 250x166 | -"),
    ("dw=250", (427, 640), "0,0 427x640 > 250x374 | -"),
    ("dw=250", (100, 80), "- | -"),
    ("dw=250", (3000, 2000), "0,0 3000x2000 > 250x166 | -"),
    ("dh=250", (640, 427), "0,0 640x427 > 374x250 | -"),
    ("dh=250", (427, 640), "0,0 427x640 > 166x250 | -"),
    ("dh=250", (100, 80), "- | -"),
    ("dh=250", (3000, 2000), "0,0 3000x2000 > 375x250 | -"),
    ("dw=250,dh=250,da=s", (640, 427), "0,0 640x427 > 374x250 | -"),
    ("dw=250,dh=250,da=s", (427, 640), "0,0 427x640 > 250x374 | -"),
    ("dw=250,dh=250,da=s", (100, 80), "- | -"),
    ("dw=250,dh=250,da=s", (3000, 2000), "0,0 3000x2000 > 375x250 | -"),
    ("dw=250,dh=250,da=n", (640, 427), "0,0 640x427 > 250x250 | -"),
    ("dw=250,dh=250,da=n", (427, 640), "0,0 427x640 > 250x250 | -"),
    ("dw=250,dh=250,da=n", (100, 80), "- | -"),
    ("dw=250,dh=250,da=n", (3000, 2000), "0,0 3000x2000 > 250x250 | -"),
    ("dw=50p", (640, 427), "0,0 640x427 > 320x213 | -"),
    ("dw=50p", (427, 640), "0,0 427x640 > 213x320 | -"),
    ("dw=50p", (100, 80), "0,0 100x80 > 50x40 | -"),
    ("dw=50p", (3000, 2000), "0,0 3000x2000 > 1500x1000 | -"),
    ("dh=50p", (640, 427), "0,0 640x427 > 320x213 | -"),
    ("dh=50p", (427, 640), "0,0 427x640 > 213x320 | -"),
    ("dh=50p", (100, 80), "0,0 100x80 > 50x40 | -"),
    ("dh=50p", (3000, 2000), "0,0 3000x2000 > 1500x1000 | -"),
    ("dw=50p,dh=50p,da=n", (640, 427), "0,0 640x427 > 320x213 | -"),
    ("dw=50p,dh=50p,da=n", (427, 640), "0,0 427x640 > 213x320 | -"),
    ("dw=50p,dh=50p,da=n", (100, 80), "0,0 100x80 > 50x40 | -"),
    ("dw=50p,dh=50p,da=n", (3000, 2000), "0,0 3000x2000 > 1500x1000 | -"),
    ("dw=25p,dh=10p", (640, 427), "0,0 640x427 > 64x42 | -"),
    ("dw=25p,dh=10p", (427, 640), "0,0 427x640 > 42x64 | -"),
    ("dw=25p,dh=10p", (100, 80), "0,0 100x80 > 10x8 | -"),
    ("dw=25p,dh=10p", (3000, 2000), "0,0 3000x2000 > 300x200 | -"),
    ("dw=12.5p", (640, 427), "0,0 640x427 > 80x53 | -"),
    ("dw=12.5p", (427, 640), "0,0 427x640 > 53x80 | -"),
    ("dw=12.5p", (100, 80), "0,0 100x80 > 12x10 | -"),
    ("dw=12.5p", (3000, 2000), "0,0 3000x2000 > 375x250 | -"),
    ("dw=200,dh=100", (640, 427), "0,0 640x427 > 149x100 | -"),
    ("dw=200,dh=100", (427, 640), "0,0 427x640 > 66x100 | -"),
    ("dw=200,dh=100", (100, 80), "- | -"),
    ("dw=200,dh=100", (3000, 2000), "0,0 3000x2000 > 150x100 | -"),
    ("dw=200,dh=100,da=s", (640, 427), "0,0 640x427 > 200x133 | -"),
    ("dw=200,dh=100,da=s", (427, 640), "0,0 427x640 > 200x299 | -"),
    ("dw=200,dh=100,da=s", (100, 80), "- | -"),
    ("dw=200,dh=100,da=s", (3000, 2000), "0,0 3000x2000 > 200x133 | -"),
    ("dw=100,dh=200,da=s", (640, 427), "0,0 640x427 > 299x200 | -"),
    ("dw=100,dh=200,da=s", (427, 640), "0,0 427x640 > 133x200 | -"),
    ("dw=100,dh=200,da=s", (100, 80), "- | -"),
    ("dw=100,dh=200,da=s", (3000, 2000), "0,0 3000x2000 > 300x200 | -"),
    ("dw=1000,dh=1000", (640, 427), "- | -"),
    ("dw=1000,dh=1000", (427, 640), "- | -"),
    ("dw=1000,dh=1000", (100, 80), "- | -"),
    ("dw=1000,dh=1000", (3000, 2000), "0,0 3000x2000 > 1000x666 | -"),
    ("dw=1000,dh=1000,ds=s", (640, 427), "0,0 640x427 > 1000x667 | -"),
    ("dw=1000,dh=1000,ds=s", (427, 640), "0,0 427x640 > 667x1000 | -"),
    ("dw=1000,dh=1000,ds=s", (100, 80), "0,0 100x80 > 1000x800 | -"),
    ("dw=1000,dh=1000,ds=s", (3000, 2000), "0,0 3000x2000 > 1000x666 | -"),
    ("dw=1000,ds=s", (640, 427), "0,0 640x427 > 1000x667 | -"),
    ("dw=1000,ds=s", (427, 640), "0,0 427x640 > 1000x1498 | -"),
    ("dw=1000,ds=s", (100, 80), "0,0 100x80 > 1000x800 | -"),
    ("dw=1000,ds=s", (3000, 2000), "0,0 3000x2000 > 1000x666 | -"),
    ("ds=s", (640, 427), "0,0 640x427 > 640x427 | -"),
    ("ds=s", (427, 640), "0,0 427x640 > 427x640 | -"),
    ("ds=s", (100, 80), "0,0 100x80 > 100x80 | -"),
    ("ds=s", (3000, 2000), "0,0 3000x2000 > 3000x2000 | -"),
    ("", (640, 427), "- | -"),
    ("", (427, 640), "- | -"),
    ("", (100, 80), "- | -"),
    ("", (3000, 2000), "- | -"),
    ("sx=20,sy=10,sw=50,sh=40", (640, 427), "- | -"),
    ("sx=20,sy=10,sw=50,sh=40", (427, 640), "- | -"),
    ("sx=20,sy=10,sw=50,sh=40", (100, 80), "- | -"),
    ("sx=20,sy=10,sw=50,sh=40", (3000, 2000), "- | -"),
    ("sx=20,sy=10,sw=50,sh=40,ds=s", (640, 427), "20,10 50x40 > 50x40 | -"),
    ("sx=20,sy=10,sw=50,sh=40,ds=s", (427, 640), "20,10 50x40 > 50x40 | -"),
    ("sx=20,sy=10,sw=50,sh=40,ds=s", (100, 80), "20,10 50x40 > 50x40 | -"),
    ("sx=20,sy=10,sw=50,sh=40,ds=s", (3000, 2000), "20,10 50x40 > 50x40 | -"),
    ("sx=20,sy=10,sw=50,sh=40,dw=25", (640, 427), "20,10 50x40 > 25x20 | -"),
    ("sx=20,sy=10,sw=50,sh=40,dw=25", (427, 640), "20,10 50x40 > 25x20 | -"),
    ("sx=20,sy=10,sw=50,sh=40,dw=25", (100, 80), "20,10 50x40 > 25x20 | -"),
    ("sx=20,sy=10,sw=50,sh=40,dw=25", (3000, 2000), "20,10 50x40 > 25x20 | -"),
    ("sx=10p,sy=10p,sw=50p,sh=50p,dw=30", (640, 427), "64,42 320x213 > 30x20 | -"),
    ("sx=10p,sy=10p,sw=50p,sh=50p,dw=30", (427, 640), "42,64 213x320 > 30x44 | -"),
    ("sx=10p,sy=10p,sw=50p,sh=50p,dw=30", (100, 80), "10,8 50x40 > 30x24 | -"),
    ("sx=10p,sy=10p,sw=50p,sh=50p,dw=30", (3000, 2000), "300,200 1500x1000 > 30x20 | -"),
    ("sw=50p,dh=20", (640, 427), "0,0 320x427 > 14x20 | -"),
    ("sw=50p,dh=20", (427, 640), "0,0 213x640 > 6x20 | -"),
    ("sw=50p,dh=20", (100, 80), "0,0 50x80 > 12x20 | -"),
    ("sw=50p,dh=20", (3000, 2000), "0,0 1500x2000 > 15x20 | -"),
    ("dw=250,dh=250,cw=250,ch=250", (640, 427), "0,0 640x427 > 250x166 | 250x250+0+41"),
    ("dw=250,dh=250,cw=250,ch=250", (427, 640), "0,0 427x640 > 166x250 | 250x250+41+0"),
    ("dw=250,dh=250,cw=250,ch=250", (100, 80), "- | 250x250+75+85"),
    ("dw=250,dh=250,cw=250,ch=250", (3000, 2000), "0,0 3000x2000 > 250x166 | 250x250+0+41"),
    ("dw=250,dh=250,da=s,cw=250,ch=250", (640, 427), "0,0 640x427 > 374x250 | 250x250-62+0"),
    ("dw=250,dh=250,da=s,cw=250,ch=250", (427, 640), "0,0 427x640 > 250x374 | 250x250+0-62"),
    ("dw=250,dh=250,da=s,cw=250,ch=250", (100, 80), "- | 250x250+75+85"),
    ("dw=250,dh=250,da=s,cw=250,ch=250", (3000, 2000), "0,0 3000x2000 > 375x250 | 250x250-62+0"),
    ("cw=50,ch=50", (640, 427), "- | 50x50-295-188"),
    ("cw=50,ch=50", (427, 640), "- | 50x50-188-295"),
    ("cw=50,ch=50", (100, 80), "- | 50x50-25-15"),
    ("cw=50,ch=50", (3000, 2000), "- | 50x50-1475-975"),
    ("cw=700,ch=700", (640, 427), "- | 700x700+30+136"),
    ("cw=700,ch=700", (427, 640), "- | 700x700+136+30"),
    ("cw=700,ch=700", (100, 80), "- | 700x700+300+310"),
    ("cw=700,ch=700", (3000, 2000), "- | 700x700-1150-650"),
    ("dw=100,cw=120,ch=120,dx=5,dy=7", (640, 427), "0,0 640x427 > 100x66 | 120x120+5+7"),
    ("dw=100,cw=120,ch=120,dx=5,dy=7", (427, 640), "0,0 427x640 > 100x149 | 120x120+5+7"),
    ("dw=100,cw=120,ch=120,dx=5,dy=7", (100, 80), "- | 120x120+5+7"),
    ("dw=100,cw=120,ch=120,dx=5,dy=7", (3000, 2000), "0,0 3000x2000 > 100x66 | 120x120+5+7"),
    ("dw=100,cw=120,ch=120,dx=5p,dy=10p", (640, 427), "0,0 640x427 > 100x66 | 120x120+32+42"),
    ("dw=100,cw=120,ch=120,dx=5p,dy=10p", (427, 640), "0,0 427x640 > 100x149 | 120x120+21+64"),
    ("dw=100,cw=120,ch=120,dx=5p,dy=10p", (100, 80), "- | 120x120+5+8"),
    ("dw=100,cw=120,ch=120,dx=5p,dy=10p", (3000, 2000), "0,0 3000x2000 > 100x66 | 120x120+150+200"),
    ("dw=100,cw=120", (640, 427), "0,0 640x427 > 100x66 | -"),
    ("dw=100,cw=120", (427, 640), "0,0 427x640 > 100x149 | -"),
    ("dw=100,cw=120", (100, 80), "- | -"),
    ("dw=100,cw=120", (3000, 2000), "0,0 3000x2000 > 100x66 | -"),
    ("dw=120.7", (640, 427), "0,0 640x427 > 120x80 | -"),
    ("dw=120.7", (427, 640), "0,0 427x640 > 120x180 | -"),
    ("dw=120.7", (100, 80), "- | -"),
    ("dw=120.7", (3000, 2000), "0,0 3000x2000 > 120x80 | -"),
    ("dw=33.3p,da=s", (640, 427), "0,0 640x427 > 213x142 | -"),
    ("dw=33.3p,da=s", (427, 640), "0,0 427x640 > 142x213 | -"),
    ("dw=33.3p,da=s", (100, 80), "0,0 100x80 > 33x26 | -"),
    ("dw=33.3p,da=s", (3000, 2000), "0,0 3000x2000 > 998x665 | -"),
    ("dw=77,dh=33,da=x", (640, 427), "0,0 640x427 > 77x33 | -"),
    ("dw=77,dh=33,da=x", (427, 640), "0,0 427x640 > 77x33 | -"),
    ("dw=77,dh=33,da=x", (100, 80), "0,0 100x80 > 77x33 | -"),
    ("dw=77,dh=33,da=x", (3000, 2000), "0,0 3000x2000 > 77x33 | -"),
    ("pt=ptss,dw=300,dh=300", (640, 427), "0,0 640x427 > 300x200 | -"),
    ("pt=ptss,dw=300,dh=300", (427, 640), "0,0 427x640 > 200x300 | -"),
    ("pt=ptss,dw=300,dh=300", (100, 80), "passed"),
    ("pt=ptss,dw=300,dh=300", (3000, 2000), "0,0 3000x2000 > 300x200 | -"),
    ("pt=ptss,dw=5000", (640, 427), "passed"),
    ("pt=ptss,dw=5000", (427, 640), "passed"),
    ("pt=ptss,dw=5000", (100, 80), "passed"),
    ("pt=ptss,dw=5000", (3000, 2000), "passed"),
    ("pt=ptls,dw=300,dh=300", (640, 427), "passed"),
    ("pt=ptls,dw=300,dh=300", (427, 640), "passed"),
    ("pt=ptls,dw=300,dh=300", (100, 80), "- | -"),
    ("pt=ptls,dw=300,dh=300", (3000, 2000), "passed"),
    ("pt=ptls,dw=5000", (640, 427), "- | -"),
    ("pt=ptls,dw=5000", (427, 640), "- | -"),
    ("pt=ptls,dw=5000", (100, 80), "- | -"),
    ("pt=ptls,dw=5000", (3000, 2000), "- | -"),
    ("pt=y,dw=90", (640, 427), "0,0 640x427 > 90x60 | -"),
    ("pt=y,dw=90", (427, 640), "0,0 427x640 > 90x134 | -"),
    ("pt=y,dw=90", (100, 80), "0,0 100x80 > 90x72 | -"),
    ("pt=y,dw=90", (3000, 2000), "0,0 3000x2000 > 90x60 | -"),
    ("dw=90,dh=90,da=s,cw=90,ch=60", (640, 427), "0,0 640x427 > 134x90 | 90x60-22-15"),
    ("dw=90,dh=90,da=s,cw=90,ch=60", (427, 640), "0,0 427x640 > 90x134 | 90x60+0-37"),
    ("dw=90,dh=90,da=s,cw=90,ch=60", (100, 80), "- | 90x60-5-10"),
    ("dw=90,dh=90,da=s,cw=90,ch=60", (3000, 2000), "0,0 3000x2000 > 135x90 | 90x60-22-15"),
    ("dw=1,dh=1", (640, 427), "0,0 640x427 > 1x1 | -"),
    ("dw=1,dh=1", (427, 640), "0,0 427x640 > 1x1 | -"),
    ("dw=1,dh=1", (100, 80), "0,0 100x80 > 1x1 | -"),
    ("dw=1,dh=1", (3000, 2000), "0,0 3000x2000 > 1x1 | -"),
    ("dw=1", (640, 427), "0,0 640x427 > 1x1 | -"),
    ("dw=1", (427, 640), "0,0 427x640 > 1x1 | -"),
    ("dw=1", (100, 80), "0,0 100x80 > 1x1 | -"),
    ("dw=1", (3000, 2000), "0,0 3000x2000 > 1x1 | -"),
    ("sx=30,dw=99", (640, 427), "30,0 610x427 > 99x66 | -"),
    ("sx=30,dw=99", (427, 640), "30,0 397x640 > 99x148 | -"),
    ("sx=30,dw=99", (100, 80), "30,0 70x80 > 99x79 | -"),
    ("sx=30,dw=99", (3000, 2000), "30,0 2970x2000 > 99x66 | -"),
    ("sy=30,dh=79", (640, 427), "0,30 640x397 > 118x79 | -"),
    ("sy=30,dh=79", (427, 640), "0,30 427x610 > 52x79 | -"),
    ("sy=30,dh=79", (100, 80), "0,30 100x50 > 98x79 | -"),
    ("sy=30,dh=79", (3000, 2000), "0,30 3000x1970 > 118x79 | -"),
    ("sw=60,sh=60,dw=60,dh=60", (640, 427), "- | -"),
    ("sw=60,sh=60,dw=60,dh=60", (427, 640), "- | -"),
    ("sw=60,sh=60,dw=60,dh=60", (100, 80), "- | -"),
    ("sw=60,sh=60,dw=60,dh=60", (3000, 2000), "- | -"),
    ("sw=60,sh=60,dw=59,dh=60,da=n", (640, 427), "0,0 60x60 > 59x60 | -"),
    ("sw=60,sh=60,dw=59,dh=60,da=n", (427, 640), "0,0 60x60 > 59x60 | -"),
    ("sw=60,sh=60,dw=59,dh=60,da=n", (100, 80), "0,0 60x60 > 59x60 | -"),
    ("sw=60,sh=60,dw=59,dh=60,da=n", (3000, 2000), "0,0 60x60 > 59x60 | -"),
    ("dw=99,dh=79,da=n", (640, 427), "0,0 640x427 > 99x79 | -"),
    ("dw=99,dh=79,da=n", (427, 640), "0,0 427x640 > 99x79 | -"),
    ("dw=99,dh=79,da=n", (100, 80), "0,0 100x80 > 99x79 | -"),
    ("dw=99,dh=79,da=n", (3000, 2000), "0,0 3000x2000 > 99x79 | -"),
    ("dw=100,dh=80", (640, 427), "0,0 640x427 > 100x66 | -"),
    ("dw=100,dh=80", (427, 640), "0,0 427x640 > 53x80 | -"),
    ("dw=100,dh=80", (100, 80), "- | -"),
    ("dw=100,dh=80", (3000, 2000), "0,0 3000x2000 > 100x66 | -"),
    ("dw=640,dh=427", (640, 427), "0,0 640x427 > 640x426 | -"),
    ("dw=640,dh=427", (427, 640), "0,0 427x640 > 284x427 | -"),
    ("dw=640,dh=427", (100, 80), "- | -"),
    ("dw=640,dh=427", (3000, 2000), "0,0 3000x2000 > 640x426 | -"),
    ("dw=250,dh=250,cw=251.9,ch=250.9", (640, 427), "0,0 640x427 > 250x166 | 251x250+0+42"),
    ("dw=250,dh=250,cw=251.9,ch=250.9", (427, 640), "0,0 427x640 > 166x250 | 251x250+42+0"),
    ("dw=250,dh=250,cw=251.9,ch=250.9", (100, 80), "- | 251x250+75+85"),
    ("dw=250,dh=250,cw=251.9,ch=250.9", (3000, 2000), "0,0 3000x2000 > 250x166 | 251x250+0+42"),
    ("dw=101,dh=101,cw=200,ch=200", (640, 427), "0,0 640x427 > 101x67 | 200x200+49+66"),
    ("dw=101,dh=101,cw=200,ch=200", (427, 640), "0,0 427x640 > 67x101 | 200x200+66+49"),
    ("dw=101,dh=101,cw=200,ch=200", (100, 80), "- | 200x200+50+60"),
    ("dw=101,dh=101,cw=200,ch=200", (3000, 2000), "0,0 3000x2000 > 101x67 | 200x200+49+66"),
    ("dw=60,dh=60,da=s,dx=3,cw=60,ch=60", (640, 427), "0,0 640x427 > 89x60 | 60x60+3+0"),
    ("dw=60,dh=60,da=s,dx=3,cw=60,ch=60", (427, 640), "0,0 427x640 > 60x89 | 60x60+3-14"),
    ("dw=60,dh=60,da=s,dx=3,cw=60,ch=60", (100, 80), "0,0 100x80 > 75x60 | 60x60+3+0"),
    ("dw=60,dh=60,da=s,dx=3,cw=60,ch=60", (3000, 2000), "0,0 3000x2000 > 90x60 | 60x60+3+0"),
    ("sx=1.9,sy=1.9,sw=40.9,sh=40.9,dw=20.9,dh=20.9,da=n", (640, 427), "1,1 40x40 > 20x20 | -"),
    ("sx=1.9,sy=1.9,sw=40.9,sh=40.9,dw=20.9,dh=20.9,da=n", (427, 640), "1,1 40x40 > 20x20 | -"),
    ("sx=1.9,sy=1.9,sw=40.9,sh=40.9,dw=20.9,dh=20.9,da=n", (100, 80), "1,1 40x40 > 20x20 | -"),
    ("sx=1.9,sy=1.9,sw=40.9,sh=40.9,dw=20.9,dh=20.9,da=n", (3000, 2000), "1,1 40x40 > 20x20 | -"),
];

fn wish(list: &str) -> Wish {
    let mut parameters = Parameters::default();
    let _pattern = parameters.add_list(list.as_bytes());
    Wish::new(&parameters)
}

fn shown(outcome: Outcome) -> String {
    let geometry = match outcome {
        Outcome::Passed => return "passed".to_owned(),
        Outcome::Empty => return "empty".to_owned(),
        Outcome::Made(geometry) => geometry,
    };
    let scale = geometry.scale.map(|scale| {
        let Part {
            x,
            y,
            width,
            height,
        } = scale.part;
        format!(
            "{x},{y} {width}x{height} > {}x{}",
            scale.width, scale.height
        )
    });
    let canvas = geometry.canvas.map(|canvas| {
        let Canvas {
            width,
            height,
            x,
            y,
        } = canvas;
        format!("{width}x{height}{x:+}{y:+}")
    });
    let or_none = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
    format!("{} | {}", or_none(scale), or_none(canvas))
}

#[test]
fn the_arithmetic_is_small_light_s() {
    assert!(TABLE.len() >= 200);
    for &(list, (width, height), expected) in TABLE {
        let found = shown(outcome(&wish(list), width, height, false));
        assert_eq!(found, expected, "{list} of {width}x{height}");
    }
}

/// A picture whose red tells how far right a pixel is, its green how far down; nothing of it is black.
fn gradient((width, height): (u32, u32)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fastest);
    let mut writer = encoder.write_header().expect("a picture");
    let part = |at: u32, of: u32| (at * 255 / of) as u8;
    let pixel = |at: u32| [part(at % width, width), part(at / width, height), 128];
    let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    writer.write_image_data(&pixels).expect("a picture");
    writer.finish().expect("a picture");
    bytes
}

/// Sides and pixels of a PNG in RGB.
fn decoded(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
        .read_info()
        .expect("a picture");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a picture")];
    let info = reader.next_frame(&mut pixels).expect("a picture");
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (info.width, info.height, pixels)
}

/// The numbers of a row's text.
fn numbers(text: &str) -> Vec<f64> {
    let apart = text.replace(['+', 'x', ',', '>'], " ").replace('-', " -");
    apart.split_whitespace().flat_map(str::parse).collect()
}

/// What stands at a row's corner, worked out from its text: a colour, and how far off it may be.
fn corner(row: &str, (width, height): (u32, u32), right: bool, below: bool) -> ([f64; 3], f64) {
    let (width, height) = (f64::from(width), f64::from(height));
    let (scale, canvas) = row.split_once(" | ").expect("a picture");
    let [x, y, part_width, part_height, to_width, to_height] = match numbers(scale)[..] {
        [x, y, w, h, to_w, to_h] => [x, y, w, h, to_w, to_h],
        _ => [0.0, 0.0, width, height, width, height],
    };
    let [all_width, all_height, left, top] = match numbers(canvas)[..] {
        [w, h, left, top] => [w, h, left, top],
        _ => [to_width, to_height, 0.0, 0.0],
    };
    let at_x = if right { all_width - 1.0 } else { 0.0 } - left;
    let at_y = if below { all_height - 1.0 } else { 0.0 } - top;
    if at_x < 0.0 || at_y < 0.0 || at_x >= to_width || at_y >= to_height {
        return ([0.0; 3], 0.0);
    }
    // A pixel of the result, but at least one of the source: its corner is not the corner of the slope.
    let across = (part_width / to_width).max(1.0) / width;
    let steps = across.max((part_height / to_height).max(1.0) / height);
    let red = (x + (at_x + 0.5) * part_width / to_width) / width;
    let green = (y + (at_y + 0.5) * part_height / to_height) / height;
    ([red * 255.0, green * 255.0, 128.0], 3.0 + 255.0 * steps)
}

#[test]
fn corners_are_where_the_arithmetic_puts_them() {
    use crate::image::small_light::plan::{EffectsMax, Planned, plan};
    let max = EffectsMax {
        radius: 10.0,
        sigma: 10.0,
    };
    let limits = ::image::Limits::default();
    let mut sources: Vec<((u32, u32), Vec<u8>)> = Vec::new();
    for &(list, size, row) in TABLE {
        if !sources.iter().any(|(known, _)| *known == size) {
            sources.push((size, gradient(size)));
        }
        let source = &sources
            .iter()
            .find(|(known, _)| *known == size)
            .expect("a picture")
            .1;
        let facts = ::image::probe(source).expect("a picture");
        let planned = plan(&wish(list), &facts, max, ::image::Crop::Centre, None);
        let Planned::Made(plan) = planned else {
            continue;
        };
        let picture = ::image::render(source, &plan, &limits).expect("a picture");
        let (width, height, pixels) = decoded(&picture.bytes);
        for (right, below) in [(false, false), (true, false), (false, true), (true, true)] {
            let (wanted, tolerance) = corner(row, size, right, below);
            let x = if right { width - 1 } else { 0 };
            let y = if below { height - 1 } else { 0 };
            let at = (y * width + x) as usize * 3;
            let found = &pixels[at..at + 3];
            let near =
                |(found, wanted): (&u8, &f64)| (f64::from(*found) - wanted).abs() <= tolerance;
            assert!(
                found.iter().zip(&wanted).all(near),
                "{list} of {size:?} ({row}): right {right}, below {below}: {found:?}, not {wanted:?} ± {tolerance}"
            );
        }
    }
}

#[test]
fn what_leads_to_no_pixels_is_empty() {
    for list in [
        "dw=0",
        "dh=0",
        "dw=0,dh=100",
        "sx=1000,sw=10,dw=5",
        "sh=0,dh=5,ds=s",
        "sw=0,sh=0,ds=s",
    ] {
        assert_eq!(
            shown(outcome(&wish(list), 640, 427, false)),
            "empty",
            "{list}"
        );
    }
    // A side that follows from the other one has a pixel at least.
    let thin = shown(outcome(&wish("dw=10"), 1000, 2, false));
    assert_eq!(thin, "0,0 1000x2 > 10x1 | -");
}

#[test]
fn hints_reduce_by_eighths() {
    for (list, (width, height), expected) in [
        ("dw=250,dh=250,jpeghint=y", (4000, 3000), 1),
        ("dw=250,dh=250,jpeghint=y", (640, 427), 8),
        ("dw=200,dh=200,jpeghint=y", (640, 427), 4),
        ("dw=140,dh=140,jpeghint=y", (640, 427), 3),
        ("dw=100,jpeghint=y", (640, 427), 2),
        ("dw=250,dh=250", (4000, 3000), 8),
        ("dw=250,dh=250,jpeghint=y,e=gd", (4000, 3000), 8),
        ("dw=250,dh=250,jpeghint=y,e=imlib2", (4000, 3000), 1),
        ("jpeghint=y", (4000, 3000), 8),
        ("dw=0,jpeghint=y", (4000, 3000), 8),
        ("dw=9000,jpeghint=y", (4000, 3000), 8),
        // A percentage is one of the square that stands for the picture.
        ("dw=10p,jpeghint=y", (8000, 8000), 1),
    ] {
        assert_eq!(hint(&wish(list), width, height), expected, "{list}");
    }
}

#[test]
fn a_hint_counts_for_jpeg_alone() {
    let wish = wish("dw=200,dh=200,jpeghint=y");
    // Half of 427 is 214: the box is met by a picture of 320 by 214.
    for (is_jpeg, expected) in [
        (true, "0,0 640x427 > 200x133 | -"),
        (false, "0,0 640x427 > 200x133 | -"),
    ] {
        assert_eq!(shown(outcome(&wish, 640, 427, is_jpeg)), expected);
    }
}

#[test]
fn hostile_numbers_stay_within_bounds() {
    let long = "9".repeat(300);
    for list in [
        format!("dw={long},dh={long},ds=s"),
        format!("dw=1,cw={long},ch={long},dx={long}"),
        format!("sx={long},sy={long},dw=1"),
        format!("sw={long},sh={long},dw=5,da=s"),
        format!("dw={long}p,ds=s"),
    ] {
        for sides in [(1, 1), (65_500, 65_500), (1, 65_500), (u32::MAX, u32::MAX)] {
            // Whatever it is, it is told without a panic; the limits on output do the rest.
            let _told = outcome(&wish(&list), sides.0, sides.1, true);
        }
    }
}
